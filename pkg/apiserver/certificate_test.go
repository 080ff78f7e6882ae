package apiserver

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-project/holdfast/test/certificates"
)

const remaining = "holdfast_apiserver_serving_certificate_remaining_seconds"

// TestP7dACertificateOfOurOwnIsValidWhereClocksAreBehind: one that is valid from now
// on is none for somebody five minutes behind.
func TestP7dACertificateOfOurOwnIsValidWhereClocksAreBehind(t *testing.T) {
	o := NewOptions()
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	content, _ := o.SecureServing.ServerCert.GeneratedCert.CurrentCertKeyContent()
	block, _ := pem.Decode(content)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if behind := time.Now().Add(-5 * time.Minute); leaf.NotBefore.After(behind) {
		t.Errorf("valid from %s, where some clocks still say %s", leaf.NotBefore, behind)
	}
}

func TestP7deReadinessGoesByTheEndOfTheCertificateAlone(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	authority := certificates.NewAuthority(t, "issuer")
	lasting := func(from, to time.Duration) []byte {
		certificate, _ := authority.Issue("server", func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(from), now.Add(to) })
		return certificate
	}
	tests := []struct {
		name    string
		content []byte
		says    string // "" is ready
		left    float64
	}{
		{"valid", lasting(-time.Hour, time.Hour), "", 3600},
		{"issued by somebody whose clock is five minutes ahead", lasting(5*time.Minute, time.Hour), "", 3600},
		{"expired", lasting(-time.Hour, -time.Minute), "expired at 2026-03-01T11:59:00Z", -60},
		{"none", nil, "is not there", 0},
		{"no certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), "reading the serving certificate", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := servingCertificate{func() ([]byte, []byte) { return tc.content, nil }, func() time.Time { return now }}
			err := c.ready(nil)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("ready: %v, want %q", err, tc.says)
			}
			reg := prometheus.NewRegistry()
			registerRemaining(reg, c)
			want := "# HELP " + remaining + " How long the serving certificate is still valid; negative after it expired, 0 if it cannot be read.\n" +
				"# TYPE " + remaining + " gauge\n" + remaining + " " + strconv.FormatFloat(tc.left, 'f', -1, 64) + "\n"
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestP7eACertificateThatExpiresWhileItIsServed: the process goes on, says that it is
// not ready, and is again once somebody has renewed the files.
func TestP7eACertificateThatExpiresWhileItIsServed(t *testing.T) {
	authority, folder := certificates.NewAuthority(t, "issuer"), t.TempDir()
	issue := func(life time.Duration) {
		certificate, key := authority.Issue("server", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(life) })
		for name, content := range map[string][]byte{"tls.key": key, "tls.crt": certificate} {
			fresh := filepath.Join(folder, name+".next")
			if err := os.WriteFile(fresh, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(fresh, filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	issue(time.Hour)
	d := newDelegator(t)
	d.tell(trust(nil, authority))
	d.serve(func(o *Options) {
		o.SecureServing.ServerCert.CertKey.CertFile, o.SecureServing.ServerCert.CertKey.KeyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	})
	issue(2 * time.Second)
	d.soon("an expired certificate", visit{path: "/readyz"}, http.StatusInternalServerError)
	if code, body := d.code(visit{path: "/readyz/serving-certificate"}); code != http.StatusInternalServerError {
		t.Errorf("the check that fails is another one: %d %s", code, body)
	}
	if code, body := d.code(visit{path: "/livez"}); code != http.StatusOK {
		t.Errorf("an expired certificate would end the process: %d %s", code, body)
	}
	issue(time.Hour)
	d.soon("a renewed certificate", visit{path: "/readyz"}, http.StatusOK)
}
