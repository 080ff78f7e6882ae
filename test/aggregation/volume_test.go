package aggregation

import (
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-project/holdfast/test/certificates"
)

// servingName is what kube-apiserver expects of a backend.
const servingName = "holdfast-apiserver." + system + ".svc"

// pair is a key pair by the names under which a Secret has it.
func pair(authority *certificates.Authority, serial int64) map[string][]byte {
	certificate, key := authority.Issue(servingName, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(serial) })
	return map[string][]byte{"tls.crt": certificate, "tls.key": key}
}

// volume is a mounted Secret: files are links through one link, which a change
// swaps, and what it led to before is deleted.
type volume struct {
	*testing.T
	folder, present string
}

func newVolume(t *testing.T, content map[string][]byte) *volume {
	t.Helper()
	v := &volume{T: t, folder: t.TempDir()}
	v.set(content)
	for name := range content {
		if err := os.Symlink(filepath.Join("..data", name), v.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func (v *volume) path(name string) string { return filepath.Join(v.folder, name) }

func (v *volume) set(content map[string][]byte) {
	v.Helper()
	next, err := os.MkdirTemp(v.folder, "..2026_")
	if err != nil {
		v.Fatal(err)
	}
	for name, bytes := range content {
		if err := os.WriteFile(filepath.Join(next, name), bytes, 0o600); err != nil {
			v.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Base(next), v.path("..data_tmp")); err != nil {
		v.Fatal(err)
	}
	if err := os.Rename(v.path("..data_tmp"), v.path("..data")); err != nil {
		v.Fatal(err)
	}
	if v.present != "" {
		if err := os.RemoveAll(v.present); err != nil {
			v.Fatal(err)
		}
	}
	v.present = next
}
