package fakeapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Admin is the client whose requests skip the hooks: the hand of a test.
const Admin = "admin"

// Options are what a server needs to know. The zero value is usable.
type Options struct {
	// Now gives the time for timestamps; time.Now if nil, which is virtual in
	// a synctest bubble.
	Now func() time.Time
	// AutoGC collects garbage at once after each deletion, within the request.
	AutoGC bool
	// TrackFromApply leaves managedFields out until an object is applied to, as
	// servers did when they were new. It saves half of an update's cost where
	// nobody looks at them; the appliers' entries are the same but that those
	// of earlier updaters are one entry, "before-first-apply".
	TrackFromApply bool
	// History is how many changes of one resource a watch can go back; 1024 if
	// zero. An older version is answered 410.
	History int
}

// Call is one request as hooks see it.
type Call struct {
	Client string
	// Verb is get, list, watch, create, update, patch, apply or delete.
	Verb                         string
	Group, Resource, Subresource string
	Namespace, Name              string
	// Object is the request's body. It must not be changed.
	Object []byte
}

// Writes tells whether the call can change something.
func (c Call) Writes() bool {
	return c.Verb != "get" && c.Verb != "list" && c.Verb != "watch"
}

// Hooks see the requests of all clients but Admin, in the goroutine that made
// them. All of them may block and must return when ctx ends.
type Hooks struct {
	// Before runs ahead of the request. An error loses the request: nothing
	// happens and the client sees a transport error, or the status, if the
	// error is an apierrors.APIStatus.
	Before func(ctx context.Context, c Call) error
	// After runs once the request took effect. An error loses the reply.
	After func(ctx context.Context, c Call, code int) error
	// Event runs before an event of a watch is delivered, bookmarks (without a
	// name) included. An error breaks the watch off.
	Event func(ctx context.Context, c Call, eventType, name string) error
}

// Change is one committed change, in the order of commits.
type Change struct {
	// Type is ADDED, MODIFIED or DELETED.
	Type            string
	GVR             schema.GroupVersionResource
	Namespace, Name string
	// Old and New are shared with the store: observers only read them. New is
	// the last state on a deletion, under the deletion's version.
	Old, New map[string]any
	Client   string
}

// Request is an answered request, its body dropped.
type Request struct {
	Call
	Code int
}

// Server is an API server in memory.
type Server struct {
	options Options
	kinds   *kinds

	hooksMu sync.RWMutex
	hooks   Hooks

	mu        sync.Mutex
	tables    map[*kind]*table
	version   int64
	names     int64
	observers []func(Change)
	requests  []Request
}

// firstVersion is that of an empty server. Version 1 is long gone, as on a
// real one.
const firstVersion = 1000

// New makes an empty server. It panics when our CRDs cannot be read, since no
// test can go on then.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.History == 0 {
		o.History = 1024
	}
	s := &Server{options: o, kinds: loadKinds(), tables: map[*kind]*table{}, version: firstVersion}
	for _, k := range s.kinds.all {
		s.tables[k] = newTable(s.version)
	}
	return s
}

// Config is how a client of that name reaches the server. Its requests never
// leave the process and are not rate limited.
func (s *Server) Config(client string) *rest.Config {
	return &rest.Config{
		Host:      "http://fakeapi.invalid",
		Transport: transport{server: s, client: client},
		QPS:       -1,
		ContentConfig: rest.ContentConfig{
			ContentType:        jsonType,
			AcceptContentTypes: jsonType,
		},
	}
}

// Hooks replaces the hooks.
func (s *Server) Hooks(h Hooks) {
	s.hooksMu.Lock()
	defer s.hooksMu.Unlock()
	s.hooks = h
}

func (s *Server) hooksFor(client string) Hooks {
	if client == Admin {
		return Hooks{}
	}
	s.hooksMu.RLock()
	defer s.hooksMu.RUnlock()
	return s.hooks
}

// Observe adds an observer. It is called under the store's lock, so it must
// not send requests.
func (s *Server) Observe(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, f)
}

// Objects returns what is stored of a resource (its plural), sorted by
// namespace and name. The maps are shared with the store: only read them.
func (s *Server) Objects(resource string) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var objects []map[string]any
	for _, k := range s.kinds.all {
		if k.gvr.Resource != resource {
			continue
		}
		for _, o := range s.tables[k].sorted("") {
			objects = append(objects, o.asMap())
		}
	}
	return objects
}

// Requests returns what was answered since the last reset, in the order of
// taking effect. A request that Before refused or lost is not among them; one
// whose reply was lost is.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ResetRequests forgets the answered requests.
func (s *Server) ResetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// Compact forgets the history of all resources: a watch from any version but
// the newest is answered 410 then. Running watches go on.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.forget(s.version)
	}
}

// transport carries one client's requests.
type transport struct {
	server *Server
	client string
}

// RoundTrip serves the request in the caller's goroutine.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.server.roundTrip(t.client, req)
}
