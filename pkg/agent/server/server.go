package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/mtls"
)

const (
	headerTimeout = 5 * time.Second
	// bodyTimeout is for requests without an upload; an apply sets its own.
	bodyTimeout = 15 * time.Second
	// answerTimeout covers a verified read that waits behind a reload.
	answerTimeout = reloadWait + 30*time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	// maxConnections bounds what strangers can open before they are asked for
	// a certificate.
	maxConnections = 64
	// shutdownTimeout lets an apply that is under way come to its outcome. A
	// harder end is survived too: the next start resolves it.
	shutdownTimeout = 20 * time.Second
)

// Server is an agent with its listeners.
type Server struct {
	config Config
	agent  *agent
	certs  *mtls.Files
}

// New checks the configuration and reads the certificates. It changes nothing.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	l, err := newLayout(config.Dir)
	if err != nil {
		return nil, err
	}
	certs, err := mtls.Open(config.CertDir, config.PreviousTrust)
	if err != nil {
		return nil, err
	}
	return &Server{config: config, agent: newAgent(config, l, &disk{}), certs: certs}, nil
}

// Run serves until the context ends, and returns when everything it started has
// stopped. The folder is laid out first if that was not done before.
func (s *Server) Run(ctx context.Context) error {
	if err := initialise(ctx, s.agent.disk, s.agent.layout, nil); err != nil {
		return err
	}
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		l.server.BaseContext = func(net.Listener) context.Context {
			// Requests outlive the signal to stop, up to shutdownTimeout.
			return klog.NewContext(context.WithoutCancel(ctx), klog.LoggerWithValues(klog.FromContext(ctx), "listener", l.name))
		}
		group.Go(func() error {
			if err := l.server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving %s: %w", l.name, err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			if err := l.server.Shutdown(stop); err != nil {
				return errors.Join(fmt.Errorf("stopping %s: %w", l.name, err), l.server.Close())
			}
			return nil
		})
	}
	group.Go(func() error {
		if err := s.agent.start(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // told to stop before HAProxy was there
			}
			return err
		}
		s.agent.watch(ctx)
		return nil
	})
	return group.Wait()
}

// endpoint is one listener with what it serves.
type endpoint struct {
	name     string
	listener net.Listener
	server   *http.Server
}

func (s *Server) listen(ctx context.Context) ([]endpoint, error) {
	h := newHandlers(s.agent)
	var endpoints []endpoint
	add := func(name, network, address string, handler http.Handler) error {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, network, address)
		if err != nil {
			for _, open := range endpoints {
				err = errors.Join(err, open.listener.Close())
			}
			return fmt.Errorf("listening for %s: %w", name, err)
		}
		endpoints = append(endpoints, endpoint{name: name, listener: netutil.LimitListener(listener, maxConnections), server: &http.Server{
			Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout,
			WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
			// Handshakes that fail are an event each, and anybody can cause them.
			ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx)), slog.LevelDebug),
		}})
		return nil
	}
	if err := add("api", "tcp", s.config.ListenAddress, s.network(h)); err != nil {
		return nil, err
	}
	endpoints[0].listener = tls.NewListener(endpoints[0].listener, s.certs.Server())
	if err := add("health", "tcp", s.config.HealthAddress, s.health(h)); err != nil {
		return nil, err
	}
	socket := s.agent.layout.agentSocket()
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier process: %w", err)
	}
	if err := add("local", "unix", socket, local(h)); err != nil {
		return nil, err
	}
	// The folder is closed to others already; this is the second lock.
	return endpoints, os.Chmod(socket, 0o600)
}

// network is what the TLS port serves: everything that concerns the pod needs
// the controller's certificate, whatever else is known about the sender.
func (s *Server) network(h *handlers) http.Handler {
	controller := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			err := s.certs.Authorize(r.Context(), r.TLS, api.ControllerName)
			if err == nil {
				next(w, r)
				return
			}
			status := http.StatusUnauthorized
			var role *mtls.RoleError
			if errors.As(err, &role) {
				status = http.StatusForbidden
			}
			// The peer may hold a better certificate by now. It shows it only in a
			// new handshake, so this connection is of no more use to anybody.
			w.Header().Set("Connection", "close")
			klog.FromContext(r.Context()).Info("Turned away a request", "peer", r.RemoteAddr, "route", r.URL.Path, "reason", err)
			answerJSON(w, status, apiDetail(err))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.RouteHealth, h.health)
	mux.HandleFunc("GET "+api.RouteReady, h.ready)
	mux.HandleFunc("GET "+api.RouteState, controller(h.addressed(h.state)))
	mux.HandleFunc("POST "+api.RouteApply, controller(h.addressed(h.apply)))
	mux.HandleFunc("PUT "+api.RoutePlan, controller(h.addressed(h.plan)))
	mux.HandleFunc("PUT "+api.RouteEpoch, controller(h.addressed(h.epoch)))
	return mux
}

func apiDetail(err error) api.ErrorDetail {
	return api.ErrorDetail{Stage: api.StageIdentity, Message: clip(err.Error())}
}

// health is what kubelet and Prometheus may ask without a certificate.
func (s *Server) health(h *handlers) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.RouteHealth, h.health)
	mux.HandleFunc("GET "+api.RouteReady, h.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.config.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: bodyTimeout}))
	return mux
}

// local is what the pod's own containers may ask: nothing here changes the pod.
func local(h *handlers) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.RouteHealth, h.health)
	mux.HandleFunc("GET "+api.RouteReady, h.ready)
	mux.HandleFunc("GET "+api.RouteState, h.whenReady(h.state))
	mux.HandleFunc("GET "+api.RouteDrain, h.drain)
	return mux
}
