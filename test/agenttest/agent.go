package agenttest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/agent/server"
)

// startLimit is only reached by a failure.
const startLimit = 30 * time.Second

// Options are what a test may choose about a pod.
type Options struct {
	PodName, PodUID, TemplateUID string
	// Authority issues the agent's certificate; pods of one fleet share one.
	Authority         *Authority
	MinReloadInterval time.Duration
	// Refuse returns HAProxy's words against a configuration, empty when it is
	// taken. It may be called from any goroutine.
	Refuse func(config []byte) string
}

// Agent is one pod: the real agent beside a replaced HAProxy.
type Agent struct {
	t       testing.TB
	options Options
	config  server.Config
	haproxy *haproxy
	client  *client.Client
	stop    func()
}

// Start lays out a pod and waits until its agent answers. All of it ends with
// the test.
func Start(t testing.TB, options Options) *Agent {
	t.Helper()
	// Sockets have short names, which a test's own folder may not allow.
	root, err := os.MkdirTemp("", "hfa")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	dir, certs := filepath.Join(root, "d"), filepath.Join(root, "tls")
	options.Authority.Issue(t, certs, api.AgentName)
	check(t, server.Initialise(t.Context(), dir, nil))
	a := &Agent{t: t, options: options, haproxy: &haproxy{dir: dir, refuse: options.Refuse}, stop: func() {}}
	a.config = server.Config{
		Dir: dir, PodName: options.PodName, PodUID: options.PodUID,
		ListenAddress: freeAddress(t), HealthAddress: "127.0.0.1:0", CertDir: certs,
		HAProxyBinary: "false", Version: "agenttest", MinReloadInterval: options.MinReloadInterval,
	}
	controller := filepath.Join(root, "controller")
	options.Authority.Issue(t, controller, api.ControllerName)
	a.client, err = client.New(client.Config{CertDir: controller})
	check(t, err)
	t.Cleanup(a.client.Close)
	t.Cleanup(func() { a.stop(); a.StopHAProxy() })
	a.StartHAProxy()
	a.StartAgent()
	return a
}

// Target addresses the agent for a client with a certificate of its authority.
func (a *Agent) Target() client.Target {
	return client.Target{PodName: a.options.PodName, PodUID: a.options.PodUID, TemplateUID: a.options.TemplateUID, Address: a.config.ListenAddress}
}

// Client is one that the agent accepts.
func (a *Agent) Client() *client.Client { return a.client }

// Loaded is the configuration of the current worker.
func (a *Agent) Loaded() string {
	a.haproxy.mu.Lock()
	defer a.haproxy.mu.Unlock()
	return string(a.haproxy.config)
}

// StartAgent runs an agent process' worth of agent on the pod's folder.
func (a *Agent) StartAgent() {
	a.t.Helper()
	a.config.Registry = prometheus.NewRegistry()
	s, err := server.New(a.config)
	check(a.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	a.stop = func() {
		a.stop = func() {}
		cancel()
		if err := <-ended; err != nil {
			a.t.Errorf("agent ended: %v", err)
		}
	}
	for deadline := time.Now().Add(startLimit); ; {
		_, err := a.client.State(a.t.Context(), a.Target(), client.StateOptions{})
		if err == nil {
			return
		}
		select {
		case err := <-ended:
			ended <- nil
			a.t.Fatalf("agent ended early: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("agent did not start: %v", err)
		}
	}
}

// StopAgent ends the agent and leaves its folder and HAProxy as they are.
func (a *Agent) StopAgent() { a.stop() }

// StartHAProxy starts a master from what is on disk.
func (a *Agent) StartHAProxy() {
	a.t.Helper()
	check(a.t, a.haproxy.start(a.t.Context()))
}

// StopHAProxy ends master and worker at once. Doing it twice does nothing.
func (a *Agent) StopHAProxy() {
	if a.haproxy.close != nil {
		_ = a.haproxy.stop() // closed twice at the most
		a.haproxy.close = nil
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
