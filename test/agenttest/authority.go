package agenttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/mtls"
)

// Authority issues certificates for one test.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes one that nobody else trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agenttest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	certificate, err := x509.ParseCertificate(raw)
	check(t, err)
	return &Authority{certificate: certificate, key: key}
}

// Issue writes a folder like a mounted Secret, with a certificate of that role.
func (a *Authority) Issue(t testing.TB, dir, role string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: role}, DNSNames: []string{role},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	check(t, err)
	encoded, err := x509.MarshalECPrivateKey(key)
	check(t, err)
	check(t, os.MkdirAll(dir, 0o700))
	for name, block := range map[string]*pem.Block{
		mtls.CertFile: {Type: "CERTIFICATE", Bytes: raw},
		mtls.KeyFile:  {Type: "EC PRIVATE KEY", Bytes: encoded},
		mtls.CAFile:   {Type: "CERTIFICATE", Bytes: a.certificate.Raw},
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}
