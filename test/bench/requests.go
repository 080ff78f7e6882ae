package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// call is one request to the API server.
type call struct {
	method, resource, name string
}

func (c call) String() string {
	return strings.TrimSuffix(c.method+" "+c.resource+"/"+c.name, "/")
}

// tally is what was asked of the API server on behalf of one act.
type tally struct {
	mu    sync.Mutex
	calls []call
}

func (t *tally) add(c call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, c)
}

// take returns what was asked so far, and starts over.
func (t *tally) take() []call {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.calls
	t.calls = nil
	return taken
}

type tallyKey struct{}

// withTally makes requests with the context count in t.
func withTally(ctx context.Context, t *tally) context.Context {
	return context.WithValue(ctx, tallyKey{}, t)
}

// counting is a configuration whose clients count requests by the tally in their
// context, so that what others do in between, such as the elector, is left out.
func counting(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counter{next} })
	return config
}

type counter struct {
	next http.RoundTripper
}

// RoundTrip notes the request and passes it on.
func (c counter) RoundTrip(request *http.Request) (*http.Response, error) {
	if t, ok := request.Context().Value(tallyKey{}).(*tally); ok {
		t.add(callOf(request))
	}
	return c.next.RoundTrip(request)
}

// callOf reads …/namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]].
func callOf(request *http.Request) call {
	found := call{method: request.Method}
	parts := strings.Split(request.URL.Path, "/")
	at := slices.Index(parts, "namespaces")
	if at < 0 || at+2 >= len(parts) {
		return found
	}
	found.resource = parts[at+2]
	if at+3 < len(parts) {
		found.name = parts[at+3]
	}
	return found
}
