package server

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// serial is that of the certificate a client is shown.
func (p *pod) serial(port int) string {
	p.t.Helper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true})
	must(p.t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestP14CertificateShapes: whatever a file looks like that HAProxy takes, a
// client is shown its certificate, the worker is found to hold it, and a forced
// reload changes neither. What HAProxy does not take changes nothing.
func TestP14CertificateShapes(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	port := freePort(t)
	tlsOutput := func(content string) output {
		return output{api.ConfigPath: p.output("tls")[api.ConfigPath] +
			fmt.Sprintf("    bind 127.0.0.1:%d ssl crt certs/www.pem\n", port)}.with("certs/www.pem", content)
	}
	chain := ""
	for range 12 {
		chain += string(newAuthority(t).pem())
	}
	tests := []struct {
		name  string
		shape func(certificate, key string) string
		fails bool
	}{
		{"a normal file", func(c, k string) string { return c + k }, false},
		{"an empty line in the middle", func(c, k string) string { return c + "\n" + k }, false},
		{"line ends of another system", func(c, k string) string { return strings.ReplaceAll(c+k, "\n", "\r\n") }, false},
		{"leading blank lines", func(c, k string) string { return "\n\n" + c + k }, false},
		{"no last newline", func(c, k string) string { return strings.TrimSuffix(c+k, "\n") }, false},
		{"the key first", func(c, k string) string { return k + c }, false},
		{"a chain of twelve", func(c, k string) string { return c + chain + k }, false},
		{"lines that are commands", func(c, k string) string { return "quit\nshow env\n" + c + "show env\n\nquit\n" + k }, false},
		{"the key of another certificate", func(c, _ string) string { _, k := p.certs.pair(t, "x"); return c + string(k) }, true},
		{"no key", func(c, _ string) string { return c }, true},
		{"half a certificate", func(c, k string) string { return c[:len(c)/2] + k }, true},
	}
	loaded := ""
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			certificate, key := p.certs.pair(t, "www.example.org")
			o := tlsOutput(tc.shape(string(certificate), string(key)))
			result := p.apply(o)
			if result.OK == tc.fails {
				t.Fatalf("loaded %t: %+v", result.OK, result.Error)
			}
			if !tc.fails {
				loaded = serialOf(t, certificate)
			}
			if got := p.serial(port); got != loaded {
				t.Errorf("a client is shown %s, want %s", got, loaded)
			}
			if state := p.state(true); state.InvariantViolation != "" {
				t.Errorf("violation %s", state.InvariantViolation)
			}
			if tc.fails {
				return
			}
			forced := p.request(o)
			forced.Manifest.Mode = api.ModeReload
			if result, err := p.client.Apply(t.Context(), p.target, forced); err != nil || !result.OK || p.serial(port) != loaded {
				t.Errorf("forced reload: %+v, %v", result, err)
			}
		})
	}
}

func serialOf(t *testing.T, certificate []byte) string {
	t.Helper()
	block, _ := pem.Decode(certificate)
	return parseCertificate(t, block.Bytes).SerialNumber.String()
}
