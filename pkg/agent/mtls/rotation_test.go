package mtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// mount lays a folder out as kubelet mounts a Secret, or swaps it as kubelet
// does: a new generation beside the old one, then one rename of its link.
func mount(t *testing.T, dir string, generation int, certificate, key, ca []byte) {
	t.Helper()
	name := fmt.Sprintf("..generation-%d", generation)
	must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	lay(t, filepath.Join(dir, name), certificate, key, ca)
	must(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, dataLink)))
	for _, file := range []string{CertFile, KeyFile, CAFile} {
		if err := os.Symlink(filepath.Join(dataLink, file), filepath.Join(dir, file)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
}

func long(c *x509.Certificate) { c.NotAfter = time.Now().Add(72 * time.Hour) }

// shows is a connection of a peer with a certificate of that authority.
func (a authority) shows(t *testing.T) *tls.ConnectionState {
	t.Helper()
	raw, _ := a.issue(t, long)
	block, _ := pem.Decode(raw)
	leaf, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
}

// TestPreviousTrustEnds: replaced trust is valid beside the new one up to its
// deadline, which no later rotation moves.
func TestPreviousTrustEnds(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour, MaxPreviousTrust} {
		t.Run(keep.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				first, second, third := newAuthority(t), newAuthority(t), newAuthority(t)
				certificate, key := first.issue(t, long)
				mount(t, dir, 1, certificate, key, first.pem())
				files, err := Open(dir, keep)
				must(t, err)
				trusted := func(a authority) bool { return files.Authorize(context.Background(), a.shows(t), role) == nil }

				mount(t, dir, 2, certificate, key, second.pem())
				time.Sleep(recheckInterval)
				if got := trusted(first); got != (keep > 0) {
					t.Errorf("replaced trust is valid: %t", got)
				}
				if !trusted(second) {
					t.Error("the new trust is not valid")
				}
				if keep == 0 {
					return
				}
				time.Sleep(keep - 3*recheckInterval)
				mount(t, dir, 3, certificate, key, third.pem())
				time.Sleep(recheckInterval)
				for i, a := range []authority{first, second, third} {
					if !trusted(a) {
						t.Errorf("trust %d is not valid before its deadline", i+1)
					}
				}
				time.Sleep(2 * recheckInterval)
				if trusted(first) || !trusted(second) || !trusted(third) {
					t.Errorf("after the first deadline: %t %t %t", trusted(first), trusted(second), trusted(third))
				}
				// An unreadable folder must not make removed trust last longer.
				must(t, os.Remove(filepath.Join(dir, dataLink)))
				time.Sleep(keep)
				if trusted(second) || !trusted(third) {
					t.Errorf("after the second deadline: %t %t", trusted(second), trusted(third))
				}
			})
		})
	}
}

// TestARenewedAuthority keeps its key, as the manifests ask for: agents and
// controllers know each other whichever of them was renewed first.
func TestARenewedAuthority(t *testing.T) {
	first := newAuthority(t)
	renewed := first.renewed(t)
	for _, pair := range [][2]authority{{first, renewed}, {renewed, first}, {renewed, renewed}} {
		dir := t.TempDir()
		certificate, key := pair[0].issue(t, long)
		mount(t, dir, 1, certificate, key, pair[0].pem())
		files, err := Open(dir, 0)
		must(t, err)
		if err := files.Authorize(t.Context(), pair[1].shows(t), role); err != nil {
			t.Error(err)
		}
	}
}

func TestPreviousTrustIsBounded(t *testing.T) {
	if _, err := Open(t.TempDir(), MaxPreviousTrust+1); err == nil {
		t.Error("kept previous trust for more than a day")
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := newAuthority(t)
		certificate, key := a.issue(t, long)
		mount(t, dir, 0, certificate, key, a.pem())
		files, err := Open(dir, time.Hour)
		must(t, err)
		for i := range 3 * maxPrevious {
			mount(t, dir, i+1, certificate, key, newAuthority(t).pem())
			time.Sleep(recheckInterval)
			files.get(context.Background())
			if len(files.previous) > maxPrevious {
				t.Fatalf("kept %d", len(files.previous))
			}
		}
		// The same bytes again are the present trust, not a removed one.
		mount(t, dir, 100, certificate, key, files.previous[0].pem)
		time.Sleep(recheckInterval)
		files.get(context.Background())
		if len(files.previous) != maxPrevious {
			t.Errorf("kept %d after a return", len(files.previous))
		}
	})
}

// TestSwappedSecretIsReadWhole: all three files come from one generation, even
// while the single links are still those of another.
func TestSwappedSecretIsReadWhole(t *testing.T) {
	dir := t.TempDir()
	a, b := newAuthority(t), newAuthority(t)
	certificate, key := a.issue(t, unchanged)
	mount(t, dir, 1, certificate, key, a.pem())
	files, err := Open(dir, 0)
	must(t, err)
	next, nextKey := b.issue(t, unchanged)
	// A reader of the links one by one would mix these.
	must(t, os.Remove(filepath.Join(dir, KeyFile)))
	must(t, os.WriteFile(filepath.Join(dir, KeyFile), key, 0o600))
	mount(t, dir, 2, next, nextKey, b.pem())
	must(t, files.reload())
	if leaf := files.current.certificate.Leaf; leaf.CheckSignatureFrom(b.cert) != nil {
		t.Error("the certificate is not that of the new generation")
	}
}
