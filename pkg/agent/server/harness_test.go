package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

const (
	testPodUID      = "11111111-aaaa-4aaa-8aaa-111111111111"
	testTemplateUID = "22222222-bbbb-4bbb-8bbb-222222222222"
	waitLimit       = 60 * time.Second // reached by failures alone
)

// pod is one proxy pod on this machine: a folder, HAProxy, an agent, a client.
type pod struct {
	t        *testing.T
	dir      string
	layout   layout
	port     int // of the frontend
	agentAt  string
	haproxy  *exec.Cmd
	log      *lockedBuffer
	certs    *authority
	disk     *disk
	wait     time.Duration
	pace     time.Duration
	patience time.Duration   // with one upload; zero: the default
	maxOld   int             // zero: the default
	second   int             // another port of the frontend, once it is asked for
	logs     context.Context // carries the logger of agents
	agent    *agent
	stop     func()
	client   *client.Client
	target   client.Target
	seq      uint64
}

// intercept has before run ahead of each further step, or nothing.
func (d *disk) intercept(before func(step string) error) {
	if before == nil {
		d.before.Store(nil)
		return
	}
	d.before.Store(&before)
}

// newPod lays out the folder and starts HAProxy and an agent.
func newPod(t *testing.T) *pod {
	t.Helper()
	p := layPod(t)
	p.startHAProxy()
	p.startAgent()
	return p
}

func layPod(t *testing.T) *pod {
	t.Helper()
	return layPodOn(t, func(string) {})
}

// layPodOn lets prepare have the folder that will be shared before it is used.
func layPodOn(t *testing.T, prepare func(shared string)) *pod {
	t.Helper()
	haproxyBinary(t)
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := newLayout(filepath.Join(dir, "d"))
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.Mkdir(l.dir, 0o700))
	prepare(l.dir)
	p := &pod{t: t, dir: dir, layout: l, port: freePort(t), certs: newAuthority(t), disk: &disk{},
		wait: waitLimit, log: &lockedBuffer{}, logs: t.Context()}
	p.certs.issue(t, filepath.Join(dir, "agent-tls"), api.AgentName)
	p.certs.issue(t, filepath.Join(dir, "controller-tls"), api.ControllerName)
	if err := initialise(t.Context(), p.disk, l, []byte(p.config("bootstrap"))); err != nil {
		t.Fatal(err)
	}
	return p
}

// config answers every request with the given text, which tells outputs apart.
func (p *pod) config(answer string) string {
	return fmt.Sprintf(`global
    default-path config
defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
frontend main
    bind "${POD_IP}:%d"
    http-request return status 200 content-type text/plain string %q
`, p.port, answer)
}

// startAgent runs a whole agent with its listeners until the test ends.
func (p *pod) startAgent() {
	p.t.Helper()
	server := p.newServer()
	ctx, cancel := context.WithCancel(p.logs)
	done := make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = server.Run(ctx)
	}()
	stopped := sync.OnceFunc(func() {
		cancel()
		if <-done; ended != nil {
			p.t.Errorf("agent ended with %v", ended)
		}
	})
	p.t.Cleanup(stopped)
	p.agent, p.stop = server.agent, stopped
	select {
	case <-server.agent.started:
	case <-done:
		p.t.Fatalf("agent ended early: %v", ended)
	case <-time.After(waitLimit):
		p.t.Fatalf("agent did not start; HAProxy said:\n%s", p.log)
	}
}

func (p *pod) newServer() *Server {
	p.t.Helper()
	server, err := New(p.newConfig())
	if err != nil {
		p.t.Fatal(err)
	}
	server.agent.disk, server.agent.slots.disk, server.agent.haproxy.wait = p.disk, p.disk, p.wait
	return server
}

// newConfig is that of one more agent process, and points the client at it.
func (p *pod) newConfig() Config {
	p.t.Helper()
	p.agentAt = fmt.Sprintf("127.0.0.1:%d", freePort(p.t))
	var err error
	if p.client, err = client.New(client.Config{CertDir: filepath.Join(p.dir, "controller-tls")}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.client.Close)
	p.target = client.Target{PodName: "edge-0", PodUID: testPodUID, TemplateUID: testTemplateUID, Address: p.agentAt}
	return Config{
		Dir: p.layout.dir, PodName: "edge-0", PodUID: testPodUID,
		ListenAddress: p.agentAt, HealthAddress: "127.0.0.1:0", CertDir: filepath.Join(p.dir, "agent-tls"),
		HAProxyBinary: haproxyBinary(p.t), Version: "test", MinReloadInterval: p.pace, MaxOldWorkers: p.maxOld, Registry: prometheus.NewRegistry(),
	}
}

func (p *pod) state(verify bool) *api.State {
	p.t.Helper()
	state, err := p.client.State(p.t.Context(), p.target, client.StateOptions{Verify: verify})
	if err != nil {
		p.t.Fatal(err)
	}
	return state
}

// request is an apply of the output on top of what the pod has.
func (p *pod) request(o output) client.ApplyRequest {
	p.t.Helper()
	state := p.state(true)
	p.seq++
	request := o.request(api.Token{LeaderEpoch: max(1, state.EpochFloor), RenderSeq: p.seq})
	request.Manifest.ExpectedPrevPlanID = state.AppliedPlanID
	request.Manifest.ExpectedPrevPlanProof = state.AppliedPlanProof
	request.Manifest.ExpectedPrevToken = state.AppliedToken
	request.Held, request.Features = state.Files, state.Features
	return request
}

func (p *pod) apply(o output) *api.Result {
	p.t.Helper()
	result, err := p.client.Apply(p.t.Context(), p.target, p.request(o))
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

// mustLoad applies an output that has to work.
func (p *pod) mustLoad(o output) *api.Result {
	p.t.Helper()
	result := p.apply(o)
	if !result.OK || result.Mode != api.OutcomeReload {
		p.t.Fatalf("apply ended as %s, want a reload: %+v\n%s", result.Mode, result.Error, p.log)
	}
	return result
}

// served is what a client of the frontend gets.
func (p *pod) served() string {
	p.t.Helper()
	// A kept connection would lead to the worker before.
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := fresh.Get("http://" + p.frontend() + "/")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

func (p *pod) frontend() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

func metricOf(t *testing.T, metric prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	must(t, metric.Write(&out))
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// eventually polls until the condition holds or the test has to fail.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %s", what, waitLimit)
		}
		if err := pause(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// nextPort starts anywhere, so that two test processes rarely meet.
var nextPort = func() *atomic.Uint32 {
	var start atomic.Uint32
	start.Store(rand.Uint32N(12000))
	return &start
}()

func freePort(t *testing.T) int {
	t.Helper()
	// Below the range from which outgoing connections get their ports, and each
	// port once: neither may take it between here and its use.
	for range 100 {
		port := 20000 + int(nextPort.Add(1))%12000
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no free port found")
	return 0
}

// lockedBuffer collects what a process writes while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
