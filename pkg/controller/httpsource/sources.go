package httpsource

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// Config is what Sources need.
type Config struct {
	// Changed is called when an offer might differ. It must not block.
	Changed func()
	Metrics *Metrics
	// Transport is for tests; nil takes one with this package's bounds.
	Transport http.RoundTripper
}

// Sources are the documents of one template.
type Sources struct {
	config Config
	client *http.Client
	ctx    context.Context
	wg     sync.WaitGroup

	mu  sync.Mutex
	all map[string]*source
}

// New fetches nothing yet. Everything it starts ends with ctx.
func New(ctx context.Context, config Config) *Sources {
	if config.Transport == nil {
		config.Transport = newTransport()
	}
	return &Sources{config: config, client: newClient(config.Transport), ctx: ctx, all: map[string]*source{}}
}

// Wait returns when everything has ended, after ctx has.
func (s *Sources) Wait() {
	s.wg.Wait()
	s.client.CloseIdleConnections()
}

// Update follows exactly these documents. Those that stay the same go on; one
// whose settings change keeps what was fetched from the same URL.
func (s *Sources) Update(resources map[string]v1alpha1.HTTPResource) error {
	all, err := settingsFor(resources)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.all
	s.all = make(map[string]*source, len(all))
	for name, want := range all {
		old := before[name]
		if old != nil && old.settings == want {
			s.all[name] = old
			delete(before, name)
			continue
		}
		s.all[name] = s.start(name, want, old)
	}
	for _, gone := range before {
		gone.cancel()
	}
	return nil
}

func (s *Sources) start(name string, want settings, old *source) *source {
	ctx, cancel := context.WithCancel(s.ctx)
	made := &source{
		name: name, settings: want, client: s.client, metrics: s.config.Metrics, changed: s.config.Changed, cancel: cancel,
	}
	if old != nil && old.settings.url == want.url {
		made.memory = old.remembers()
		// A new bound must be met by the content too, so it is fetched whole.
		made.validators = validators{}
	}
	s.wg.Go(func() { made.run(ctx) })
	return made
}

func (s *source) remembers() memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory
}

// Begin forgets what earlier terms accepted and refused: another leader may have
// used newer content since, so everything is checked again.
func (s *Sources) Begin() {
	for _, each := range s.sorted() {
		each.mu.Lock()
		each.accepted, each.refusal = nil, nil
		each.mu.Unlock()
	}
}

// Offer is what the documents hold now. Its error is ErrPending while one is
// fetched for the first time, and an UnavailableError for a critical one that
// never was.
func (s *Sources) Offer() (*Offer, error) {
	out := &Offer{choices: map[string]choice{}}
	for _, each := range s.sorted() {
		out.choices[each.name] = choice{url: display(each.settings.url), critical: each.settings.critical, memory: each.remembers()}
	}
	return out, out.check()
}

// Accept notes that outputs with the newest contents that the offer had of these
// documents passed every check.
func (s *Sources) Accept(o *Offer, names []string) {
	for _, name := range names {
		if each := s.find(name); each != nil {
			each.mu.Lock()
			each.accepted = o.choices[name].newest
			each.mu.Unlock()
		}
	}
}

// Refuse notes that an output with a document's newest content failed where one
// without it passed. The content is tried again after it was fetched again, or
// when the template changes.
func (s *Sources) Refuse(o *Offer, name string, cause error) {
	each := s.find(name)
	if each == nil {
		return
	}
	each.mu.Lock()
	refused, news := each.newest != nil && each.newest == o.choices[name].newest, false
	if refused {
		blamed := each.newest.Digest + " " + cause.Error()
		news = each.blamed != blamed
		each.refusal, each.blamed = cause, blamed
	}
	each.mu.Unlock()
	if refused {
		s.config.Metrics.refusals.Inc()
	}
	if news {
		klog.FromContext(s.ctx).Info("Refused fetched content, what was accepted before stays in use",
			"httpResource", name, "url", display(each.settings.url), "digest", o.choices[name].newest.Digest, "err", cause)
	}
}

// Retry offers refused contents again.
func (s *Sources) Retry() {
	for _, each := range s.sorted() {
		each.mu.Lock()
		each.refusal = nil
		each.mu.Unlock()
	}
}

// Problems tell, each by the document's name, what keeps the newest content from
// being known or used. They are the same text for the same cause.
func (s *Sources) Problems() []string {
	var out []string
	for _, each := range s.sorted() {
		m := each.remembers()
		what := fmt.Sprintf("httpResource %q (%s): ", each.name, display(each.settings.url))
		switch {
		case m.refusal != nil:
			out = append(out, what+fmt.Sprintf("its content %s is refused: %v; %s", m.newest.Digest, m.refusal, m.inUse()))
		case m.failure != nil && m.newest == nil && each.settings.critical:
			out = append(out, what+fmt.Sprintf("never fetched: %v; nothing can be rendered without it", m.failure))
		case m.failure != nil:
			out = append(out, what+fmt.Sprintf("not fetched: %v; %s", m.failure, m.inUse()))
		}
	}
	return out
}

func (m memory) inUse() string {
	switch {
	case m.accepted != nil:
		return "content " + m.accepted.Digest + " stays in use"
	case m.newest != nil && m.refusal == nil:
		return "content " + m.newest.Digest + ", fetched before, is still tried"
	}
	return "its content is empty"
}

func (s *Sources) find(name string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

func (s *Sources) sorted() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*source, 0, len(s.all))
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		out = append(out, s.all[name])
	}
	return out
}
