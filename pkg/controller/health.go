package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
)

// Components of /healthz. The name of the first is fixed by ADR-0033.
const (
	componentRender   = "reconciliation-coordinator"
	componentDeploy   = "deployer"
	componentElection = "leader-election"
	componentRecovery = "recovery"
	componentStart    = "startup"
)

// health is what the process says about itself. It holds no secrets: texts in
// it have been redacted.
type health struct {
	mu         sync.Mutex
	components map[string]componentHealth
	ready      bool
}

type componentHealth struct {
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
}

func newHealth() *health {
	h := &health{components: map[string]componentHealth{}}
	for _, name := range []string{componentRender, componentDeploy, componentElection, componentRecovery, componentStart} {
		h.set(name, "")
	}
	return h
}

// set notes a component's problem, or with an empty text that it has none.
func (h *health) set(component, problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.components[component] = componentHealth{Healthy: problem == "", Error: problem}
}

// started ends the start.
func (h *health) started() {
	h.set(componentStart, "")
	h.setReady(true)
}

func (h *health) setReady(ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = ready
}

// handler serves liveness, readiness, components and metrics. Liveness says that
// the process answers and no more: killing it cures no API server and no
// template. /healthz answers 200 whatever the components say, for the same
// reason (ADR-0033).
func (h *health) handler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.ready {
			http.Error(w, "not ready: "+h.components[componentStart].Error, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		components := maps.Clone(h.components)
		h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		body := json.NewEncoder(w)
		body.SetEscapeHTML(false) // people read templates' <expressions> here
		body.SetIndent("", "  ")
		_ = body.Encode(map[string]any{"components": components}) // fails only when whoever asked went away
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// serve answers until ctx ends. A listener that cannot be had is an error at
// once: nobody could tell how the process is.
func (h *health) serve(ctx context.Context, address string, metrics prometheus.Gatherer) (wait func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for health: %w", err)
	}
	server := &http.Server{
		Handler:           h.handler(metrics),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing here is worth waiting for
	klog.FromContext(ctx).Info("Served health", "address", listener.Addr().String())
	return func() error {
		defer stop()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving health: %w", err)
		}
		return nil
	}, nil
}
