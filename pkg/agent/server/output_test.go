package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// output is one rendered configuration with its files.
type output map[string]string

func (p *pod) output(answer string) output {
	return output{api.ConfigPath: p.config(answer)}
}

func (o output) with(path, content string) output {
	next := maps.Clone(o)
	next[path] = content
	return next
}

func kindOf(path string) string {
	switch {
	case path == api.ConfigPath:
		return api.KindConfig
	case strings.HasSuffix(path, ".map"):
		return api.KindMap
	case strings.HasPrefix(path, "auth/"):
		return api.KindCA
	case strings.HasSuffix(path, ".crtlist"):
		return api.KindCRTList
	case strings.HasSuffix(path, ".pem"):
		return api.KindCert
	}
	return api.KindGeneral
}

// request declares the output. Its plan is as opaque to the agent as a real one.
func (o output) request(token api.Token) client.ApplyRequest {
	parts := make(map[string][]byte, len(o))
	var files []api.File
	plan := "plan of"
	for _, path := range slices.Sorted(maps.Keys(o)) {
		parts[path] = []byte(o[path])
		file := api.Declare(api.FileSpec{Path: path, Kind: kindOf(path)}, parts[path])
		files = append(files, file)
		plan += " " + path + "=" + file.Digest
	}
	hasher := api.NewHasher()
	_, _ = hasher.Write([]byte(plan))
	return client.ApplyRequest{
		Manifest: api.Manifest{
			IdentityVersion: api.IdentityVersion, PlanID: hasher.State().Digest, PlanProof: api.PlanProof([]byte(plan)),
			PlanSchemaVersion: api.PlanSchemaVersion, Token: token, Files: files, Mode: api.ModeAuto,
		},
		Plan: []byte(plan), Parts: parts,
	}
}

// authority issues certificates for tests.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	return namedAuthority(t, "test authority")
}

func namedAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate: certificate, key: key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pair is a certificate for the name and its key, both as PEM.
func (a *authority) pair(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// issue writes a folder like a mounted Secret.
func (a *authority) issue(t *testing.T, dir, name string) {
	t.Helper()
	certificate, key := a.pair(t, name)
	writeSecret(t, dir, map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": a.pem()})
}

func writeSecret(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func wantConflict(t *testing.T, err error, reason api.Reason) {
	t.Helper()
	var conflict *client.ConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("got %v, want conflict %s", err, reason)
	} else if conflict.Conflict.Reason != reason {
		t.Errorf("got conflict %s (%s), want %s", conflict.Conflict.Reason, conflict.Conflict.Message, reason)
	}
}

func parseCertificate(t *testing.T, raw []byte) *x509.Certificate {
	t.Helper()
	certificate, err := x509.ParseCertificate(raw)
	must(t, err)
	return certificate
}
