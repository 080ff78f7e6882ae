package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// recorder is a cluster behind a socket that remembers who wrote what. Everything
// but EndpointSlices is the strict API server's.
type recorder struct {
	*httptest.Server
	inner http.RoundTripper
	admin *restclient.Config
	// reviews answers who somebody is and what he may do.
	reviews http.Handler

	mu     sync.Mutex
	slice  discoveryv1.EndpointSlice
	writes map[string]int
	reads  int
}

const slicePath = "/apis/discovery.k8s.io/v1/namespaces/system/endpointslices/active"

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	fake := fakeapi.New(fakeapi.Options{})
	r := &recorder{inner: fake.Config("apiserver").Transport, admin: fake.Config(fakeapi.Admin), writes: map[string]int{}}
	r.slice = discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: "system", Name: "active", ResourceVersion: "1"},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "active"}}
	_, err := kubernetes.NewForConfigOrDie(r.admin).CoordinationV1().Leases("system").Create(t.Context(), lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.CloseClientConnections)
	return r
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	if req.Method == http.MethodGet {
		r.reads++
	} else {
		r.writes[req.Method+" "+req.URL.Path]++
	}
	r.mu.Unlock()
	if err := takeProtobuf(req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.reviews != nil && strings.HasSuffix(req.URL.Path, "reviews") {
		r.reviews.ServeHTTP(w, req)
		return
	}
	if req.URL.Path == slicePath {
		r.serveSlice(w, req)
		return
	}
	outgoing := req.Clone(req.Context())
	outgoing.URL.Scheme, outgoing.URL.Host, outgoing.RequestURI = "http", "cluster", ""
	response, err := r.inner.RoundTrip(outgoing)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	http.NewResponseController(w).Flush()
	buffer := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = response.Body.Read(buffer)
		w.Write(buffer[:n])
		http.NewResponseController(w).Flush()
	}
}

// takeProtobuf turns a body into JSON. Clients of built-in kinds send protobuf,
// which a real API server takes and the strict one does not.
func takeProtobuf(req *http.Request) error {
	if req.Header.Get("Content-Type") != runtime.ContentTypeProtobuf {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	sent, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return err
	}
	if body, err = json.Marshal(sent); err != nil {
		return err
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.Header.Set("Content-Type", runtime.ContentTypeJSON)
	return nil
}

func (r *recorder) serveSlice(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.Method == http.MethodPut {
		body, _ := io.ReadAll(req.Body)
		var given discoveryv1.EndpointSlice
		if err := json.Unmarshal(body, &given); err != nil {
			http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
			return
		}
		if given.ResourceVersion != r.slice.ResourceVersion {
			http.Error(w, "conflict", http.StatusConflict)
			return
		}
		given.ResourceVersion += "1"
		given.TypeMeta = r.slice.TypeMeta
		r.slice = given
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&r.slice) // the client is gone then
}

func (r *recorder) leading() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slice.Endpoints) == 0 {
		return ""
	}
	return r.slice.Endpoints[0].Addresses[0]
}

// options are those of a server of this cluster, and where it will listen.
func (r *recorder) options(t *testing.T) (o *Options, at string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, r.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o = NewOptions()
	o.Kubeconfig, o.Namespaces, o.ShutdownDelay = kubeconfig, []string{"edge"}, time.Second
	o.SecureServing.Listener, o.SecureServing.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	return o, "https://" + listener.Addr().String()
}

// serve runs a whole server against the recorder and returns where it listens.
func (r *recorder) serve(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	o, at := r.options(t)
	o.Authentication.SkipInClusterLookup = true
	if address != "" {
		o.Active.Lease, o.Active.EndpointSlice, o.Active.Namespace, o.Active.Address = "active", "active", "system", address
		// The last one waits in vain.
		o.Active.HandOverLimit = 5 * time.Second
	}
	return at, runUntilStopped(t, o)
}

func runUntilStopped(t *testing.T, o *Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, o, prometheus.NewRegistry()) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// written returns what was written, without the questions about who somebody is.
func (r *recorder) written() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]int{}
	for request, count := range r.writes {
		if !strings.HasSuffix(request, "reviews") {
			found[request] = count
		}
	}
	return found
}

func awaitReady(t *testing.T, at string) {
	t.Helper()
	s := &testServer{T: t, config: &restclient.Config{Host: at, TLSClientConfig: restclient.TLSClientConfig{Insecure: true}}}
	s.eventually("the server is ready", func() bool {
		code, _, _ := s.get("", "/readyz", "")
		return code == http.StatusOK
	})
}

func TestOneReplicaWritesNothing(t *testing.T) {
	r := newRecorder(t)
	at, stop := r.serve(t, "")
	awaitReady(t, at)
	stop()
	if diff := cmp.Diff(map[string]int{}, r.written()); diff != "" || r.reads == 0 {
		t.Errorf("after %d reads, writes (-want +got):\n%s", r.reads, diff)
	}
}

func TestTwoReplicasWriteTheirTwoObjectsOnly(t *testing.T) {
	const one, two = "10.0.0.1", "10.0.0.2"
	r := newRecorder(t)
	wait := &testServer{T: t}
	at, stop := r.serve(t, one)
	awaitReady(t, at)
	wait.eventually("the first is active", func() bool { return r.leading() == one })
	other, _ := r.serve(t, two)
	awaitReady(t, other)
	stop()
	if r.leading() != two {
		t.Errorf("the first ended while clients were led to %q", r.leading())
	}
	var got []string
	for request := range r.written() {
		got = append(got, request)
	}
	slices.Sort(got)
	want := []string{
		"PUT /apis/coordination.k8s.io/v1/namespaces/system/leases/active",
		"PUT " + slicePath,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
