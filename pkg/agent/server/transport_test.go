package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// TestRolesOnTheNetworkPort: only the controller's certificate opens the API,
// health is open to all.
func TestRolesOnTheNetworkPort(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	stranger := newAuthority(t)
	p.certs.issue(t, filepath.Join(p.dir, "agent-as-client"), api.AgentName)
	stranger.issue(t, filepath.Join(p.dir, "stranger"), api.ControllerName)
	writeSecret(t, filepath.Join(p.dir, "stranger"), map[string][]byte{"ca.crt": p.certs.pem()})
	tests := []struct {
		name   string
		dir    string
		status int // zero: the handshake fails
	}{
		{"the controller", "controller-tls", http.StatusOK},
		{"nobody", "", http.StatusUnauthorized},
		{"an agent", "agent-as-client", http.StatusForbidden},
		{"a controller of another authority", "stranger", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, route := range []string{api.RouteState, api.RouteHealth, api.RouteReady} {
				want := tc.status
				if route != api.RouteState && want != 0 {
					want = http.StatusOK
				}
				if got := p.get(tc.dir, route, tls.VersionTLS13); got != want {
					t.Errorf("GET %s: status %d, want %d", route, got, want)
				}
			}
		})
	}
	if got := p.get("controller-tls", api.RouteState, tls.VersionTLS12); got != 0 {
		t.Errorf("TLS 1.2 was answered with status %d", got)
	}
	if got := p.get("controller-tls", api.RouteDrain, tls.VersionTLS13); got != http.StatusNotFound {
		t.Errorf("drain on the network port: status %d", got)
	}
}

// get returns the status, zero when there was no answer.
func (p *pod) get(dir, route string, version uint16) int {
	p.t.Helper()
	config := &tls.Config{MinVersion: version, MaxVersion: version, InsecureSkipVerify: true}
	if dir != "" {
		certificate, err := tls.LoadX509KeyPair(filepath.Join(p.dir, dir, "tls.crt"), filepath.Join(p.dir, dir, "tls.key"))
		must(p.t, err)
		config.Certificates = []tls.Certificate{certificate}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "https://"+p.agentAt+route, nil)
	must(p.t, err)
	request.Header.Set(api.HeaderPodUID, testPodUID)
	request.Header.Set(api.HeaderTemplateUID, testTemplateUID)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// TestClientRefusesAnotherRole: an agent's address that is answered with a
// controller's certificate is not an agent.
func TestClientRefusesAnotherRole(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	p.startHAProxy()
	p.certs.issue(t, filepath.Join(p.dir, "agent-tls"), api.ControllerName)
	p.startAgent()
	_, err := p.client.State(t.Context(), p.target, client.StateOptions{})
	var wrongName *tls.CertificateVerificationError
	if !errors.As(err, &wrongName) {
		t.Errorf("state from an agent without the agent's name: %v", err)
	}
}

// TestRenewedCertificatesAndTrust: both sides follow their files, and a
// connection that was opened under the old trust ends with it.
func TestRenewedCertificatesAndTrust(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.state(false)
	next := newAuthority(t)
	certificate, key := next.pair(t, api.AgentName)
	writeSecret(t, filepath.Join(p.dir, "agent-tls"), map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": next.pem()})
	eventually(t, "refusal of the old trust", func() bool {
		_, err := p.client.State(t.Context(), p.target, client.StateOptions{})
		var refused *client.RefusedError
		return errors.As(err, &refused) && refused.Status == http.StatusUnauthorized
	})
	next.issue(t, filepath.Join(p.dir, "controller-tls"), api.ControllerName)
	eventually(t, "work under the new trust", func() bool {
		_, err := p.client.State(t.Context(), p.target, client.StateOptions{})
		return err == nil
	})
	// A half-written Secret changes nothing.
	writeSecret(t, filepath.Join(p.dir, "agent-tls"), map[string][]byte{"tls.key": []byte("half")})
	p.client.Close()
	p.state(false)
}

// TestLocalSocket: state and drain without a certificate, nothing that changes.
func TestLocalSocket(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	info, err := os.Stat(p.layout.agentSocket())
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %s", info.Mode())
	}
	local := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", p.layout.agentSocket())
		}}}
	get := func(route string, into any) int {
		t.Helper()
		response, err := local.Get("http://agent" + route)
		must(t, err)
		defer response.Body.Close()
		if into != nil {
			must(t, json.NewDecoder(response.Body).Decode(into))
		}
		return response.StatusCode
	}
	var state api.State
	if status := get(api.RouteState, &state); status != http.StatusOK || state.PodUID != testPodUID {
		t.Errorf("state: status %d, %+v", status, state)
	}
	var report api.DrainReport
	if status := get(api.RouteDrain+"?bound=5s", &report); status != http.StatusOK || report.Reason != api.DrainQuiet {
		t.Errorf("drain of an idle proxy: status %d, %+v", status, report)
	}
	open, err := net.Dial("tcp", p.frontend())
	must(t, err)
	defer open.Close()
	if status := get(api.RouteDrain+"?bound=300ms", &report); status != http.StatusOK || report.Reason != api.DrainBound || report.Connections != 1 {
		t.Errorf("drain with an open connection: status %d, %+v", status, report)
	}
	if status := get(api.RouteDrain+"?bound=1h", nil); status != http.StatusBadRequest {
		t.Errorf("drain beyond the bound: status %d", status)
	}
	response, err := local.Post("http://agent"+api.RouteApply, "text/plain", nil)
	must(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("apply on the local socket: status %d", response.StatusCode)
	}
}
