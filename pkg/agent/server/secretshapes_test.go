package server

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// keyShape is a way to write a private key.
type keyShape struct {
	name    string
	block   func(t *testing.T) (crypto.Signer, *pem.Block)
	refused bool // by HAProxy, which has no passphrase
}

// sealed is a key as it looks behind a passphrase. HAProxy never gets as far as
// to find that none fits.
func sealed(kind string, headers map[string]string) func(*testing.T) (crypto.Signer, *pem.Block) {
	return func(t *testing.T) (crypto.Signer, *pem.Block) {
		body := make([]byte, 600)
		_, _ = rand.Read(body)
		return newKey(t), &pem.Block{Type: kind, Headers: headers, Bytes: body}
	}
}

func keyShapes() []keyShape {
	encode := func(t *testing.T, kind string, key crypto.Signer, raw []byte, err error) (crypto.Signer, *pem.Block) {
		t.Helper()
		must(t, err)
		return key, &pem.Block{Type: kind, Bytes: raw}
	}
	rsaKey := func(t *testing.T) *rsa.PrivateKey {
		t.Helper()
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		must(t, err)
		return key
	}
	return []keyShape{
		{"RSA, PKCS#1", func(t *testing.T) (crypto.Signer, *pem.Block) {
			key := rsaKey(t)
			return key, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
		}, false},
		{"RSA, PKCS#8", func(t *testing.T) (crypto.Signer, *pem.Block) {
			key := rsaKey(t)
			raw, err := x509.MarshalPKCS8PrivateKey(key)
			return encode(t, "PRIVATE KEY", key, raw, err)
		}, false},
		{"EC, SEC 1", func(t *testing.T) (crypto.Signer, *pem.Block) {
			key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
			must(t, err)
			raw, err := x509.MarshalECPrivateKey(key)
			return encode(t, "EC PRIVATE KEY", key, raw, err)
		}, false},
		{"EC, PKCS#8", func(t *testing.T) (crypto.Signer, *pem.Block) {
			key := newKey(t)
			raw, err := x509.MarshalPKCS8PrivateKey(key)
			return encode(t, "PRIVATE KEY", key, raw, err)
		}, false},
		{"Ed25519", func(t *testing.T) (crypto.Signer, *pem.Block) {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			must(t, err)
			raw, err := x509.MarshalPKCS8PrivateKey(key)
			return encode(t, "PRIVATE KEY", key, raw, err)
		}, false},
		{"sealed, PKCS#8", sealed("ENCRYPTED PRIVATE KEY", nil), true},
		{"sealed, with headers", sealed("RSA PRIVATE KEY", map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00112233445566778899AABBCCDDEEFF"}), true},
	}
}

// certify is a certificate for somebody's key.
func (a *authority) certify(t *testing.T, key crypto.Signer) string {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"x"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

// secrets are the slices of all keys that must be found nowhere.
type secrets []string

// take remembers 40 characters, or what there is, of every line of a key.
func (s *secrets) take(key string) string {
	for line := range strings.Lines(key) {
		if line = strings.TrimSpace(line); len(line) >= 40 && !strings.HasPrefix(line, "-----") && !strings.Contains(line, ": ") {
			*s = append(*s, line[:40])
		}
	}
	return key
}

// search finds the slices in whatever the pod says or wrote beside its sets.
func (s *secrets) search(t *testing.T, p *pod, said map[string]string) {
	t.Helper()
	for _, verify := range []bool{false, true} {
		state, err := json.Marshal(p.state(verify))
		must(t, err)
		said[fmt.Sprint("state, verified: ", verify)] = string(state)
	}
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(p.agent.config.Registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	said["metrics"] = recorder.Body.String()
	for _, pattern := range []string{p.layout.journal(), filepath.Join(p.layout.sets(), "*", setMeta), filepath.Join(p.layout.sets(), "*", setPlan), filepath.Join(p.layout.sets(), "*", setNonce)} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			must(t, err)
			said[file] = string(content)
		}
	}
	if len(*s) == 0 || len(said) < 8 {
		t.Fatalf("%d slices would be searched in %d places", len(*s), len(said))
	}
	for where, text := range said {
		if text == "" {
			t.Errorf("nothing to search in %s", where)
		}
		for _, secret := range *s {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds a slice of a key", where)
			}
		}
	}
}

// talkative is a pod whose agent says all it can, and all that it answered.
type talkative struct {
	*pod
	logs    *lockedBuffer
	answers strings.Builder
}

func newTalkative(t *testing.T) *talkative {
	t.Helper()
	p := &talkative{pod: layPod(t), logs: &lockedBuffer{}}
	logger := funcr.New(func(prefix, args string) { _, _ = io.WriteString(p.logs, prefix+args+"\n") }, funcr.Options{Verbosity: 10})
	p.pod.logs = klog.NewContext(context.Background(), logger)
	p.startHAProxy()
	p.startAgent()
	return p
}

func (p *talkative) note(result *api.Result, err error) *api.Result {
	raw, jsonErr := json.Marshal(result)
	must(p.t, jsonErr)
	fmt.Fprintf(&p.answers, "%s %v\n", raw, err)
	return result
}

func (p *talkative) send(o output, ops ...plan.Operation) *api.Result {
	p.t.Helper()
	request := p.request(o)
	request.Manifest.InPlaceOps, request.Manifest.Ops = len(ops) > 0, ops
	result, err := p.client.Apply(p.t.Context(), p.target, request)
	must(p.t, err)
	return p.note(result, err)
}

func (p *talkative) said() map[string]string {
	return map[string]string{"logs": p.logs.String(), "answers": p.answers.String()}
}

// TestP14NoKeyOfAnyShape: whatever a key looks like and however it gets to the
// pod, by reload, beneath the worker, through a list or in a request that is
// refused, nothing that is said or written beside its own file holds a slice of
// it.
func TestP14NoKeyOfAnyShape(t *testing.T) {
	t.Parallel()
	p := newTalkative(t)
	var keys secrets
	send := p.send
	start := p.listed(freePort(t), "default.example", "one.example")
	for _, path := range []string{"certs/default.example.pem", "certs/one.example.pem"} {
		keys.take(start[path][strings.Index(start[path], "-----BEGIN EC"):])
	}
	send(start)
	for _, shape := range keyShapes() {
		t.Run(shape.name, func(t *testing.T) {
			p.t = t
			signer, block := shape.block(t)
			key := keys.take(string(pem.EncodeToMemory(block)))
			_, other := p.certs.pair(t, "x")
			keys.take(string(other))
			certificate := p.certs.certify(t, signer)
			replace := plan.Operation{Kind: plan.OpCertReplace, Path: "certs/one.example.pem"}
			// In place where the shape allows it, and refused where it is none.
			send(start.with("certs/one.example.pem", key+"\n\n"+certificate), replace)
			send(start.with("certs/one.example.pem", certificate+key+string(other)), replace)
			send(start.with("certs/one.example.pem", certificate+key[:len(key)/2]), replace)
			if result := send(start.with("certs/one.example.pem", certificate+key)); result.OK == shape.refused {
				t.Errorf("loaded: %t, %+v", result.OK, result.Error)
			}
			send(start)
			listed := start.with("certs/new.pem", certificate+key)
			listed = listed.with("certs/list.crtlist", listed["certs/list.crtlist"]+"certs/new.pem new.example\n")
			send(listed, plan.Operation{Kind: plan.OpCertAdd, Path: "certs/new.pem"}, plan.Operation{Kind: plan.OpCRTListAdd, Path: "certs/list.crtlist", Key: "certs/new.pem", Value: "new.example"})
			send(start)
			p.refuse(start.with("certs/one.example.pem", certificate+key), key)
		})
	}
	p.t = t
	said := p.said()
	said["haproxy"] = p.log.String()
	keys.search(t, p.pod, said)
}

// TestP14NoMisplacedKey: a key where none belongs is quoted by HAProxy in its own
// log, and by nobody else.
func TestP14NoMisplacedKey(t *testing.T) {
	t.Parallel()
	p := newTalkative(t)
	start := p.listed(freePort(t), "default.example", "one.example")
	p.send(start)
	var keys secrets
	for i, shape := range keyShapes()[:4] {
		_, block := shape.block(t)
		key := keys.take(string(pem.EncodeToMemory(block)))
		path := []string{api.ConfigPath, "certs/list.crtlist", "auth/ca.pem", hostsMap}[i]
		if p.send(start.with(path, start[path]+key)); path == "auth/ca.pem" {
			p.send(start)
			p.send(start.with(path, start[path]+key), plan.Operation{Kind: plan.OpCAReplace, Path: path})
		}
		p.send(start)
	}
	keys.search(t, p.pod, p.said())
}

// refuse sends the key in requests that break the contract.
func (p *talkative) refuse(o output, key string) {
	p.t.Helper()
	request := p.request(o)
	manifest := manifestPart(p.t, request.Manifest)
	planPart := part{`form-data; name="plan"`, string(request.Plan)}
	for _, parts := range [][]part{
		{manifest, filePart("certs/one.example.pem", key)},
		{manifest, filePart("certs/none.pem", key)},
		{manifest, {`form-data; name="plan"`, key}},
		{{manifest.disposition, key}},
		{{`form-data; name="manifest`, key}},
		{manifest, planPart, filePart("certs/one.example.pem", o["certs/one.example.pem"]+"x")},
	} {
		contentType, body := encodeParts(p.t, parts...)
		status, answer := p.post(contentType, body)
		fmt.Fprintf(&p.answers, "%d %s\n", status, answer)
	}
	wrong := p.request(o)
	wrong.Parts["certs/one.example.pem"] = []byte(key)
	p.note(p.client.Apply(p.t.Context(), p.target, wrong))
	stale := p.request(o)
	stale.Manifest.ExpectedPrevToken.RenderSeq++
	p.note(p.client.Apply(p.t.Context(), p.target, stale))
}
