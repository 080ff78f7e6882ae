package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// listing is every file of the sets with its mode, and the committed set.
func (p *pod) listing() map[string]string {
	p.t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(p.layout.sets(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			found[path] = info.Mode().String()
		}
		return err
	})
	must(p.t, err)
	journal, err := os.ReadFile(p.layout.journal())
	must(p.t, err)
	j, err := decodeJournal(journal)
	must(p.t, err)
	found["current"] = j.Current
	return found
}

// TestP14NoKeyBytesAnywhere: a key that is applied, refused and carried over
// shows up in its own file alone, which only its owner reads.
func TestP14NoKeyBytesAnywhere(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	logs := &lockedBuffer{}
	logger := funcr.New(func(prefix, args string) { _, _ = io.WriteString(logs, prefix+args+"\n") }, funcr.Options{Verbosity: 10})
	p.logs = klog.NewContext(context.Background(), logger)
	p.startHAProxy()
	p.startAgent()

	certificate, key := p.certs.pair(t, "www.example.org")
	_, otherKey := p.certs.pair(t, "www.example.org")
	bind := output{api.ConfigPath: p.output("tls")[api.ConfigPath] +
		fmt.Sprintf("    bind 127.0.0.1:%d ssl crt certs/www.pem\n", freePort(t))}
	results := []*api.Result{
		p.mustLoad(bind.with("certs/www.pem", string(certificate)+"\n"+string(key))),
		p.apply(bind.with("certs/www.pem", string(certificate)+string(otherKey))), // does not match
		p.apply(bind.with("certs/www.pem", string(key))),                          // no certificate
		p.mustLoad(bind.with("certs/www.pem", string(certificate)+"\n"+string(key)).with("a.map", "a b\n")),
	}
	if results[1].OK || results[2].OK {
		t.Errorf("broken certificates were loaded: %+v", results)
	}
	info, err := os.Stat(filepath.Join(p.layout.current(), "certs/www.pem"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("key file has mode %s", info.Mode())
	}
	for _, folder := range []string{p.layout.dir, p.layout.sets(), p.layout.run(), filepath.Join(p.layout.current(), "certs")} {
		info, err := os.Stat(folder)
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %s", folder, info.Mode())
		}
	}
	state, err := json.Marshal(p.state(true))
	must(t, err)
	answers, err := json.Marshal(results)
	must(t, err)
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(p.agent.config.Registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	journal, err := os.ReadFile(p.layout.journal())
	must(t, err)
	searched := map[string]string{"logs": logs.String(), "state": string(state), "results": string(answers),
		"metrics": recorder.Body.String(), "journal": string(journal), "haproxy": p.log.String()}
	for where, text := range searched {
		if text == "" {
			t.Errorf("nothing to search in %s", where)
		}
		for _, secret := range []string{slice(key), slice(otherKey)} {
			if strings.Contains(text, secret) {
				t.Errorf("%s hold a slice of a key", where)
			}
		}
	}
}

// slice is 40 characters from the middle of a key's base64, without line ends.
func slice(key []byte) string {
	lines := strings.Split(string(key), "\n")
	return lines[1][10:50]
}
