package mtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const role = "controller.holdfast.internal"

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return authority{key: key}.renewed(t)
}

// renewed has another certificate for the same key.
func (a authority) renewed(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(72 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(raw)
	must(t, err)
	return a
}

func (a authority) issue(t *testing.T, change func(*x509.Certificate)) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{role}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	change(template)
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	must(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func unchanged(*x509.Certificate) {}

func lay(t *testing.T, dir string, certificate, key, ca []byte) {
	t.Helper()
	for name, content := range map[string][]byte{CertFile: certificate, KeyFile: key, CAFile: ca} {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAuthorize(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	certificate, key := ours.issue(t, unchanged)
	lay(t, dir, certificate, key, ours.pem())
	files, err := Open(dir, 0)
	must(t, err)
	var wrongRole *RoleError
	tests := []struct {
		name   string
		from   *authority
		change func(*x509.Certificate)
		accept func(error) bool
	}{
		{"the role is accepted", &ours, unchanged, func(err error) bool { return err == nil }},
		{"no certificate", nil, nil, func(err error) bool { return errors.Is(err, ErrNoCertificate) }},
		{"another authority", &theirs, unchanged, func(err error) bool { return errors.Is(err, ErrUntrusted) }},
		{"another role", &ours, func(c *x509.Certificate) { c.DNSNames = []string{"agent.holdfast.internal"} },
			func(err error) bool { return errors.As(err, &wrongRole) }},
		{"a wildcard is not the role", &ours, func(c *x509.Certificate) { c.DNSNames = []string{"*.holdfast.internal"} },
			func(err error) bool { return errors.As(err, &wrongRole) }},
		{"an expired certificate", &ours, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
			func(err error) bool { return errors.Is(err, ErrUntrusted) }},
		{"a server's certificate", &ours, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
			func(err error) bool { return errors.Is(err, ErrUntrusted) }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			conn := &tls.ConnectionState{}
			if tc.from != nil {
				raw, _ := tc.from.issue(t, tc.change)
				block, _ := pem.Decode(raw)
				leaf, err := x509.ParseCertificate(block.Bytes)
				must(t, err)
				conn.PeerCertificates = []*x509.Certificate{leaf}
			}
			if err := files.Authorize(t.Context(), conn, role); !tc.accept(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestDamagedFiles: the last good reading stays, and no error quotes a key.
func TestDamagedFiles(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.issue(t, unchanged)
	_, otherKey := a.issue(t, unchanged)
	secret := strings.Split(string(key), "\n")[1][10:50]
	tests := []struct {
		name                 string
		certificate, key, ca []byte
	}{
		{"a key of another certificate", certificate, otherKey, a.pem()},
		{"key and certificate switched", key, certificate, a.pem()},
		{"the key as authority", certificate, key, key},
		{"a key that is cut", certificate, key[:len(key)/2], a.pem()},
		{"an empty authority", certificate, key, nil},
		{"a file that is too large", certificate, append(key, make([]byte, maxFileBytes)...), a.pem()},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			lay(t, dir, certificate, key, a.pem())
			files, err := Open(dir, 0)
			must(t, err)
			good := files.current
			lay(t, dir, tc.certificate, tc.key, tc.ca)
			err = files.reload()
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("reading damaged files: %v", err)
			}
			if files.current != good {
				t.Error("the last good reading is gone")
			}
			if _, err := Open(dir, 0); err == nil {
				t.Error("opened damaged files")
			}
		})
	}
}
