package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// TestP14CertificatesInPlace: whatever the new file looks like, a client is shown
// the wanted certificate afterwards, or the one before if HAProxy does not take
// it; no transaction stays open, the file is what a reload loads, and no key is
// said anywhere.
func TestP14CertificatesInPlace(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	logs := &lockedBuffer{}
	logger := funcr.New(func(prefix, args string) { _, _ = io.WriteString(logs, prefix+args+"\n") }, funcr.Options{Verbosity: 10})
	p.logs = klog.NewContext(context.Background(), logger)
	p.startHAProxy()
	p.startAgent()
	port := freePort(t)
	bind := p.output("tls")[api.ConfigPath] + fmt.Sprintf("    bind 127.0.0.1:%d ssl crt certs\n", port)
	renew := plan.Operation{Kind: plan.OpCertReplace, Path: "certs/www.pem"}
	chain := func(length int) (long string) {
		for range length {
			long += string(newAuthority(t).pem())
		}
		return long
	}
	tests := []struct {
		name  string
		shape func(certificate, key string) string
		want  api.Outcome
	}{
		{"a normal file", func(c, k string) string { return c + k }, api.OutcomeRuntime},
		{"an empty line in the middle", func(c, k string) string { return c + "\n" + k }, api.OutcomeRuntime},
		{"the key of another certificate", func(c, _ string) string { _, k := p.certs.pair(t, "x"); return c + string(k) }, api.OutcomeRejected},
		{"line ends of another system", func(c, k string) string { return strings.ReplaceAll(c+k, "\n", "\r\n") }, api.OutcomeRuntime},
		{"leading blank lines", func(c, k string) string { return "\n\n" + c + k }, api.OutcomeRuntime},
		{"no key", func(c, _ string) string { return c }, api.OutcomeRejected},
		{"no last newline", func(c, k string) string { return strings.TrimSuffix(c+k, "\n") }, api.OutcomeRuntime},
		{"the key first", func(c, k string) string { return k + c }, api.OutcomeRuntime},
		{"half a certificate", func(c, k string) string { return c[:len(c)/2] + k }, api.OutcomeRejected},
		{"a chain", func(c, k string) string { return c + chain(3) + k }, api.OutcomeRuntime},
		{"a chain that exceeds what HAProxy takes at once", func(c, k string) string { return c + chain(30) + k }, api.OutcomeReload},
		{"lines that are commands", func(c, k string) string { return "quit\nshow env\n" + c + "show env\n\nquit\n" + k }, api.OutcomeRuntime},
	}
	certificate, key := p.certs.pair(t, "www.example.org")
	current := output{api.ConfigPath: bind}.with("certs/www.pem", string(certificate)+string(key))
	p.mustLoad(current)
	serial, secrets := serialOf(t, certificate), []string{slice(key)}
	var results []*api.Result
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			certificate, key := p.certs.pair(t, "www.example.org")
			secrets = append(secrets, slice(key))
			next := current.with("certs/www.pem", tc.shape(string(certificate), string(key)))
			result := p.move(next, renew)
			results = append(results, result)
			if result.Mode != tc.want {
				t.Fatalf("ended as %s beside %+v: %+v", result.Mode, result.OpResults, result.Error)
			}
			if result.OK {
				serial, current = serialOf(t, certificate), next
			}
			if got := p.serial(port); got != serial {
				t.Errorf("a client is shown %s, want %s", got, serial)
			}
			if state := p.state(true); state.InvariantViolation != "" {
				t.Errorf("violation %s", state.InvariantViolation)
			}
			if open, err := ask(t.Context(), p.layout.workerSocket(), "show ssl cert"); err != nil || strings.Contains(open, "*") {
				t.Errorf("a transaction is open: %q, %v", open, err)
			}
			if file, err := os.ReadFile(filepath.Join(p.layout.current(), "certs/www.pem")); err != nil || string(file) != current["certs/www.pem"] {
				t.Errorf("the file is another one: %v", err)
			}
			if !result.OK {
				return
			}
			forced := p.request(current)
			forced.Manifest.Mode = api.ModeReload
			if result, err := p.client.Apply(t.Context(), p.target, forced); err != nil || !result.OK || p.serial(port) != serial {
				t.Errorf("forced reload: %+v, %v", result, err)
			}
		})
	}
	p.client.Close()
	state, err := json.Marshal(p.agent.published.Load().state)
	must(t, err)
	answers, err := json.Marshal(results)
	must(t, err)
	journal, err := os.ReadFile(p.layout.journal())
	must(t, err)
	for where, text := range map[string]string{"logs": logs.String(), "state": string(state), "results": string(answers), "journal": string(journal), "haproxy": p.log.String()} {
		for _, secret := range secrets {
			if text == "" || strings.Contains(text, secret) {
				t.Errorf("%s hold a slice of a key, or nothing", where)
			}
		}
	}
}

// TestAnErrorQuotesNoPayload: a broken connection names the command and no more.
func TestAnErrorQuotesNoPayload(t *testing.T) {
	dir := t.TempDir()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	must(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close() // with what was sent unread: a reset
		}
	}()
	payload := strings.Repeat("secret", 1<<20)
	_, err = ask(t.Context(), filepath.Join(dir, "s"), "set ssl cert x <<\n"+payload)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got an error of %d bytes", len(fmt.Sprint(err)))
	}
	if _, err := (&operator{socket: filepath.Join(dir, "s")}).ask(t.Context(), "set map #1 k secret"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestCertificatePayload(t *testing.T) {
	authority := newAuthority(t)
	certificate, key := authority.pair(t, "x")
	c, k := string(certificate), string(key)
	encrypted := strings.Replace(k, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1)
	tests := []struct {
		name    string
		content string
		want    string // empty: left to a reload
	}{
		{"text around blocks is left out", "\n# x\n" + c + "\nquit\n\n" + k + "show env", c + k},
		{"blocks keep their order", k + c + c, k + c + c},
		{"a key with headers", c + encrypted, ""},
		{"an encrypted key", c + strings.ReplaceAll(k, "EC PRIVATE", "ENCRYPTED PRIVATE"), ""},
		{"two keys", c + k + k, ""},
		{"no key", c, ""},
		{"no certificate", k, ""},
		{"a block that cannot be read", c + k + "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", ""},
		{"a block that does not end", c + k + "-----BEGIN CERTIFICATE-----\n", ""},
		{"a block of another kind", c + k + strings.ReplaceAll(c, "CERTIFICATE", "X509 CRL"), ""},
		{"too much", strings.Repeat(c, 40) + k, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := certificatePayload([]byte(tc.content))
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%d bytes, error %v", len(got), err)
			}
			if err != nil && strings.Contains(err.Error(), slice(key)) {
				t.Error("the error quotes the key")
			}
			if strings.Contains(got, "\n\n") {
				t.Error("an empty line would end the payload")
			}
		})
	}
}
