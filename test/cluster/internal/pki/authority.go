package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	lifetime   = 365 * 24 * time.Hour
	clockSlack = time.Hour
)

// Authority signs certificates and writes them into its folder.
type Authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// Subject says who a certificate is for. Hosts make it a server certificate;
// it is valid for clients in any case.
type Subject struct {
	Name   string
	Groups []string
	Hosts  []string
}

// Pair is a certificate and its key, as files and as bytes.
type Pair struct {
	CertFile, KeyFile string
	Cert, Key         []byte
}

// NewAuthority creates an authority and writes its certificate to NAME.crt. The
// key never leaves memory: nothing is signed after start.
func NewAuthority(dir, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating key of %s: %w", name, err)
	}
	template, err := newTemplate(name, nil)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading authority %s back: %w", name, err)
	}
	a := &Authority{dir: dir, key: key, cert: cert, pem: encode("CERTIFICATE", der)}
	return a, write(filepath.Join(dir, name+".crt"), a.pem)
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return a.pem }

// File is where the authority's certificate is stored.
func (a *Authority) File() string { return filepath.Join(a.dir, a.cert.Subject.CommonName+".crt") }

// Issue signs a certificate and writes FILE.crt and FILE.key.
func (a *Authority) Issue(file string, subject Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("creating key of %s: %w", file, err)
	}
	template, err := newTemplate(subject.Name, subject.Groups)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(subject.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range subject.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing %s: %w", file, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding key of %s: %w", file, err)
	}
	pair := Pair{
		CertFile: filepath.Join(a.dir, file+".crt"),
		KeyFile:  filepath.Join(a.dir, file+".key"),
		Cert:     encode("CERTIFICATE", der),
		Key:      keyPEM,
	}
	if err := write(pair.CertFile, pair.Cert); err != nil {
		return Pair{}, err
	}
	return pair, write(pair.KeyFile, pair.Key)
}

func newTemplate(name string, groups []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    now.Add(-clockSlack),
		NotAfter:     now.Add(lifetime),
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func write(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing certificates: %w", err)
	}
	return nil
}
