package viewfeed

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// engine is the one writer of views. Streams and live reads hand it facts, and
// it applies what follows before it returns.
type engine struct {
	views   *Views
	metrics *Metrics
	// ask queues a live read; it never blocks.
	ask func(task)

	mu      sync.Mutex
	sources []*source
	states  map[*source]state
	// settled are the sources whose content, or absence, is known.
	settled map[*source]bool
	spaces  map[string]*space
	// started is set once every source is settled. Before, nothing is judged:
	// everything would be missing.
	started bool
	// firstRound are the live reads that readiness still waits for.
	firstRound map[task]bool
	ready      bool
	// judged holds the state of each verdict, to count them.
	judged map[task]checkpoint.State
}

func newEngine(caches *Views, metrics *Metrics, ask func(task)) *engine {
	return &engine{
		views: caches, metrics: metrics, ask: ask,
		states: map[*source]state{}, settled: map[*source]bool{}, spaces: map[string]*space{},
		firstRound: map[task]bool{}, judged: map[task]checkpoint.State{},
	}
}

func (e *engine) space(namespace string) *space {
	sp := e.spaces[namespace]
	if sp == nil {
		sp = newSpace(namespace)
		e.spaces[namespace] = sp
	}
	return sp
}

// put takes one object that appeared or changed.
func (e *engine) put(s *seen) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sp, d := e.space(s.namespace), newDirty()
	sp.put(s, d)
	e.flush(sp, d)
}

// remove takes out one object that is gone.
func (e *engine) remove(kind, namespace, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sp, d := e.space(namespace), newDirty()
	sp.remove(kind, name, d)
	e.flush(sp, d)
	e.lookFor(sp, kind, name)
}

// lookFor reads an object that left its stream and may be there still: Secrets
// are streamed by a label, and one that lost it looks deleted.
func (e *engine) lookFor(sp *space, kind, name string) {
	if kind == v1alpha1.KindSecret && len(sp.referencing[childKey{kind, name}]) > 0 {
		e.queue(task{namespace: sp.namespace, kind: kind, name: name})
	}
}

// replace takes everything that a source has, which settles it.
func (e *engine) replace(src *source, facts []*seen) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.replaceLocked(src, facts, streaming)
}

func (e *engine) replaceLocked(src *source, facts []*seen, to state) {
	present := map[string]names{}
	for _, s := range facts {
		link(present, s.namespace, s.name)
		e.space(s.namespace)
	}
	marks := map[*space]*dirty{}
	for namespace, sp := range e.spaces {
		if src.namespace != "" && src.namespace != namespace {
			continue
		}
		d := newDirty()
		marks[sp] = d
		for _, name := range sp.namesOf(src.kind) {
			if _, still := present[namespace][name]; still {
				continue
			}
			if to != streaming {
				sp.lose(src.kind, name, d)
				continue
			}
			sp.remove(src.kind, name, d)
			e.lookFor(sp, src.kind, name)
		}
	}
	for _, s := range facts {
		sp := e.spaces[s.namespace]
		sp.put(s, marks[sp])
	}
	changed := e.settle(src, to)
	for sp, d := range marks {
		if changed {
			// A kind that became readable, or no longer is, may matter to all.
			d.everything(sp)
		}
		e.flush(sp, d)
	}
}

// unreadable notes that a source cannot be streamed, and reports whether that
// is news. What an absent kind had is gone with it. What a forbidden one had
// can no longer be relied on; but if nothing can be said without that kind, the
// last answer stays rather than turning into an empty one.
func (e *engine) unreadable(src *source, to state) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.states[src] == to {
		return false
	}
	if to == forbidden && src.needed {
		e.settle(src, to)
		return true
	}
	e.replaceLocked(src, nil, to)
	return true
}

// settle notes a source's state and reports whether it changed. The first time
// that all are settled, everything is judged.
func (e *engine) settle(src *source, to state) bool {
	before, known := e.states[src]
	if known {
		e.metrics.Streams.WithLabelValues(src.kind, string(before)).Dec()
	}
	e.states[src] = to
	e.metrics.Streams.WithLabelValues(src.kind, string(to)).Inc()
	e.settled[src] = to != waiting && (to != forbidden || !src.needed)

	if !e.started && !slices.ContainsFunc(e.sources, func(s *source) bool { return !e.settled[s] }) {
		e.started = true
		for _, sp := range e.spaces {
			d := newDirty()
			d.everything(sp)
			e.flush(sp, d)
		}
		e.checkReady()
	}
	return before != to
}

// stateOf returns the state of the stream of a kind in a namespace.
func (e *engine) stateOf(kind, namespace string) state {
	for _, src := range e.sources {
		if src.kind == kind && (src.namespace == "" || src.namespace == namespace) {
			return e.states[src]
		}
	}
	// Not streamed at all, as Secrets are not if the operator says so.
	return forbidden
}

// namesOf lists what is known of a kind from its stream.
func (sp *space) namesOf(kind string) []string {
	var found []string
	switch kind {
	case v1alpha1.KindTemplateConfig:
		found = keysOf(sp.templates)
	case v1alpha1.KindCfg:
		found = append(keysOf(sp.outputs), keysOf(sp.retained)...)
	case KindLease:
		found = keysOf(sp.leases)
	default:
		for key, c := range sp.children {
			if key.kind == kind && !c.borrowed {
				found = append(found, key.name)
			}
		}
	}
	return found
}

func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}

// readiness returns what the first round still waits for.
func (e *engine) readiness() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready {
		return nil
	}
	if e.started {
		return fmt.Errorf("verifying, %d reads to go", len(e.firstRound))
	}
	var open []string
	for _, src := range e.sources {
		if !e.settled[src] {
			open = append(open, src.String())
		}
	}
	return fmt.Errorf("reading %s", strings.Join(open, ", "))
}

// attempted notes that a live read of the first round was tried. One that
// failed is tried again later, and its checkpoint is Unknown until then.
func (e *engine) attempted(t task) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.firstRound, t)
	e.checkReady()
}

func (e *engine) checkReady() {
	if e.ready || !e.started || len(e.firstRound) > 0 {
		return
	}
	e.ready = true
	e.views.forget()
	e.metrics.Ready.Set(1)
}
