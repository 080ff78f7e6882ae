package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/mtls"
)

const (
	dialTimeout = 5 * time.Second
	// idleTimeout ends unused connections, so that a pod that is gone holds
	// none and a renewed certificate is soon in use everywhere.
	idleTimeout = 90 * time.Second
	// DefaultStateTimeout bounds a state read and an announcement. They wait
	// behind an apply that is under way in the same pod.
	DefaultStateTimeout = 10 * time.Second
	// DefaultApplyTimeout bounds one apply: the upload, the longest wait for a
	// new worker, and the way back.
	DefaultApplyTimeout = 150 * time.Second
)

// Target is one pod, addressed so that nobody else can answer for it.
type Target struct {
	PodName string
	PodUID  string
	// TemplateUID is the template whose fleet the pod belongs to.
	TemplateUID string
	// Address is host:port of the agent.
	Address string
}

// Config is what a Client needs.
type Config struct {
	// CertDir holds tls.crt, tls.key and ca.crt of the controller's role. The
	// files are re-read while the client is in use.
	CertDir string
	// StateTimeout and ApplyTimeout default when zero.
	StateTimeout time.Duration
	ApplyTimeout time.Duration
}

// Client calls agents. It is safe for concurrent use and keeps connections.
type Client struct {
	config   Config
	http     *http.Client
	contents contents
}

// New reads the certificates once and fails when they cannot be used.
func New(config Config) (*Client, error) {
	files, err := mtls.Open(config.CertDir, mtls.MaxPreviousTrust)
	if err != nil {
		return nil, err
	}
	if config.StateTimeout == 0 {
		config.StateTimeout = DefaultStateTimeout
	}
	if config.ApplyTimeout == 0 {
		config.ApplyTimeout = DefaultApplyTimeout
	}
	transport := &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialer := &tls.Dialer{
				NetDialer: &net.Dialer{Timeout: dialTimeout},
				Config:    files.Client(ctx, api.AgentName),
			}
			return dialer.DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: 2,
		DisableCompression:  true,
	}
	return &Client{config: config, http: &http.Client{
		Transport: transport,
		// An agent never redirects, and following one would send the
		// configuration somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}, nil
}

var errRedirect = errors.New("agent answered with a redirect")

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StateOptions say what a state read should do beyond reporting.
type StateOptions struct {
	// Verify makes the agent hash its files and ask its worker first.
	Verify bool
	// WithoutPlan leaves the plan blob out of the answer.
	WithoutPlan bool
}

// State reads where the pod is.
func (c *Client) State(ctx context.Context, target Target, opts StateOptions) (*api.State, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.StateTimeout)
	defer cancel()
	query := url.Values{}
	if opts.Verify {
		query.Set(api.QueryVerify, "1")
	}
	if opts.WithoutPlan {
		query.Set(api.QueryPlan, "0")
	}
	var state api.State
	call := call{target: target, method: http.MethodGet, route: api.RouteState, query: query}
	if err := c.do(ctx, call, &state); err != nil {
		return nil, err
	}
	if state.APIVersion != api.Version {
		return nil, fmt.Errorf("agent of pod %s speaks API version %d, want %d", target.PodName, state.APIVersion, api.Version)
	}
	if state.PodUID != target.PodUID {
		return nil, fmt.Errorf("agent of pod %s answered as pod UID %s, want %s", target.PodName, state.PodUID, target.PodUID)
	}
	return &state, nil
}

// StorePlan hands a pod the blob of the plan it has applied, when its state says
// that it does not store it. It reports false when the pod has another plan by
// now; the blob was dropped then.
func (c *Client) StorePlan(ctx context.Context, target Target, plan []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.StateTimeout)
	defer cancel()
	var stored api.StoredPlan
	call := call{target: target, method: http.MethodPut, route: api.RoutePlan, body: body{plan}, contentType: "application/octet-stream"}
	err := c.do(ctx, call, &stored)
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		return false, nil
	}
	return err == nil, err
}

// Announce tells the pod that a term with this epoch has begun, and returns the
// floor it keeps from now on. A ConflictError with api.ReasonStaleEpoch means
// that the pod has heard of a later term.
func (c *Client) Announce(ctx context.Context, target Target, epoch uint64) (api.Floor, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.StateTimeout)
	defer cancel()
	body, err := jsonBody(api.Announcement{LeaderEpoch: epoch})
	if err != nil {
		return api.Floor{}, err
	}
	var floor api.Floor
	call := call{target: target, method: http.MethodPut, route: api.RouteEpoch, body: body, contentType: "application/json"}
	err = c.do(ctx, call, &floor)
	return floor, err
}
