package apiserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	restclient "k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/viewfeed"
)

// testFeed is a feed that a test writes for.
type testFeed struct {
	ready atomic.Bool
	texts map[string]string
}

func (f *testFeed) Run(ctx context.Context) { <-ctx.Done() }

func (f *testFeed) Ready() error {
	if f.ready.Load() {
		return nil
	}
	return errors.New("verifying")
}

func (f *testFeed) Configuration(_ context.Context, _, name string) ([]byte, error) {
	return []byte(f.texts[name]), nil
}

func (f *testFeed) File(_ context.Context, _, kind, object string) ([]byte, error) {
	return []byte(f.texts[kind+"/"+object]), nil
}

// testServer is a server in this process that a real client talks to.
type testServer struct {
	*testing.T
	views  *viewfeed.Views
	feed   *testFeed
	config *restclient.Config
	client versioned.Interface
	stop   func() error
}

// userHeader says who a request of a test is from. The real authenticators
// need a cluster.
const userHeader = "X-Test-User"

func startServer(t *testing.T, at string) *testServer {
	t.Helper()
	config := newConfig()
	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	serving := NewOptions().SecureServing
	serving.Listener, serving.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	applyServing(t, serving, config)
	config.Authentication.Authenticator = refuseAnonymous(authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		name := req.Header.Get(userHeader)
		if name == "" {
			name = user.Anonymous
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	}))
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "nobody" {
			return authorizer.DecisionDeny, "nobody may do nothing", nil
		}
		return authorizer.DecisionAllow, "", nil
	})

	s := &testServer{T: t, feed: &testFeed{texts: map[string]string{}}}
	s.views = viewfeed.NewViews(time.Now(), viewfeed.NewMetrics(prometheus.NewRegistry()))
	s.feed.ready.Store(true)
	server, err := newServer(config, s.views, s.feed, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	s.stop = func() error {
		cancel()
		err := <-done
		done <- err
		return err
	}
	t.Cleanup(func() { _ = s.stop() })
	s.config = &restclient.Config{
		Host:            "https://" + listener.Addr().String(),
		TLSClientConfig: restclient.TLSClientConfig{Insecure: true},
		QPS:             -1,
		WrapTransport:   asUser("tester"),
	}
	s.client = versioned.NewForConfigOrDie(s.config)
	s.awaitLive()
	return s
}

func applyServing(t *testing.T, serving *genericoptions.SecureServingOptionsWithLoopback, config *genericapiserver.Config) {
	t.Helper()
	if err := serving.ApplyToConfig(config); err != nil {
		t.Fatal(err)
	}
}

type userTransport struct {
	name  string
	inner http.RoundTripper
}

func (t userTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if t.name != "" {
		req.Header.Set(userHeader, t.name)
	}
	return t.inner.RoundTrip(req)
}

func asUser(name string) func(http.RoundTripper) http.RoundTripper {
	return func(inner http.RoundTripper) http.RoundTripper { return userTransport{name, inner} }
}

func (s *testServer) awaitLive() {
	s.Helper()
	s.eventually("the server is live", func() bool {
		code, _, _ := s.get("", "/livez", "")
		return code == http.StatusOK
	})
}

// eventually polls until something holds, for as long as a busy machine needs.
func (s *testServer) eventually(what string, holds func() bool) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			s.Fatalf("it never came true that %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// get asks as a user, or as nobody in particular, and returns the whole answer.
func (s *testServer) get(asWhom, path, accept string) (code int, contentType, body string) {
	s.Helper()
	return s.do(http.MethodGet, asWhom, path, accept)
}

func (s *testServer) do(method, asWhom, path, accept string) (code int, contentType, body string) {
	s.Helper()
	config := restclient.CopyConfig(s.config)
	config.WrapTransport = asUser(asWhom)
	transport, err := restclient.TransportFor(config)
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.Context(), method, s.config.Host+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	response, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err.Error()
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		s.Logf("reading %s: %v", path, err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), string(raw)
}

const (
	groupPath = "/apis/retained.haproxy-haptic.org/v1alpha1"
	rckpts    = groupPath + "/namespaces/edge/retainedcheckpoints"
)

func newCheckpoint(name string, verified metav1.ConditionStatus) *views.RetainedCheckpoint {
	return &views.RetainedCheckpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "edge", Name: name, UID: "u-" + "1",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
			Labels:            map[string]string{"haproxy-haptic.org/template-config": "web"},
		},
		Status: views.RetainedCheckpointStatus{
			Template: views.TemplateReference{Name: "web", UID: "t1"},
			Checksum: "0123456789abcdef", PlanID: "fedcba9876543210", Position: views.PositionNewest,
			Configuration: &views.ConfigurationSummary{Path: "haproxy.cfg", Size: 7, SHA256: checkpoint.FileChecksum([]byte("global\n"))},
			Artifacts: []views.ArtifactStatus{
				{Family: "Map", Name: "maps/hosts.map", Path: "maps/hosts.map", Checksum: checkpoint.FileChecksum([]byte("a b\n")), Verdict: "Verified", Object: &views.ObjectReference{Kind: "HAProxyMapFile", Name: "hosts"}},
				{Family: "Certificate", Name: "web.pem", Path: "ssl/web.pem", Checksum: "sha256:00", Verdict: "Verified", Object: &views.ObjectReference{Kind: "Secret", Name: "web"}},
				{Family: "General", Name: "503.http", Path: "files/503.http", Checksum: "sha256:00", Verdict: "Damaged", Message: "it is damaged", Object: &views.ObjectReference{Kind: "HAProxyGeneralFile", Name: "503"}},
			},
			Conditions: []metav1.Condition{
				{Type: views.ConditionVerified, Status: verified, Reason: "Because", Message: "of a test"},
				{Type: views.ConditionRecoverable, Status: verified, Reason: "Because", Message: "of a test"},
			},
		},
	}
}

func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("missing %q in:\n%.2000s", part, text)
		}
	}
}
