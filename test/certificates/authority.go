// Package certificates issues certificates for tests: of servers, of clients, and
// such as nobody should accept.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// backdated is how far behind the issuer's a clock may be.
const backdated = time.Hour

// Authority issues certificates for one test.
type Authority struct {
	// PEM is what others are told to trust.
	PEM         []byte
	t           testing.TB
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

// NewAuthority makes one that nobody else trusts.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	a.certify(name)
	return a
}

// Renew gives the authority another certificate for the same key and name.
func (a *Authority) Renew() *Authority {
	a.t.Helper()
	renewed := &Authority{t: a.t, key: a.key}
	renewed.certify(a.certificate.Subject.CommonName)
	return renewed
}

func (a *Authority) certify(name string) {
	a.t.Helper()
	a.certificate = lasting(name)
	a.certificate.IsCA, a.certificate.BasicConstraintsValid, a.certificate.KeyUsage = true, true, x509.KeyUsageCertSign
	raw := a.sign(a.certificate, &a.key.PublicKey)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	var err error
	if a.certificate, err = x509.ParseCertificate(raw); err != nil {
		a.t.Fatal(err)
	}
}

// Issue returns a certificate and its key, both as PEM. It is good for either end
// of a connection and for an hour, unless it is changed.
func (a *Authority) Issue(name string, change func(*x509.Certificate)) (certificate, key []byte) {
	a.t.Helper()
	template := lasting(name)
	template.DNSNames = []string{name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	if change != nil {
		change(template)
	}
	private := newKey(a.t)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	raw := a.sign(template, &private.PublicKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// Pair is the same for one's own use.
func (a *Authority) Pair(name string, change func(*x509.Certificate)) *tls.Certificate {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(name, change))
	if err != nil {
		a.t.Fatal(err)
	}
	return &pair
}

// Pool trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a *Authority) sign(template *x509.Certificate, public *ecdsa.PublicKey) []byte {
	a.t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

func lasting(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
