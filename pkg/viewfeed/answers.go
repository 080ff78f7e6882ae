package viewfeed

import (
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// This file is how live reads talk to the engine.

// readingOf returns what a stream of a checkpoint must find, or nil if none is
// wanted any more.
func (e *engine) readingOf(t task) *reading {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.space(t.namespace).retained[t.name]; r != nil {
		return r.reading
	}
	return nil
}

// remember keeps the content checksum that a stream found. It belongs to the
// bytes, so it is true whatever happened meanwhile.
func (e *engine) remember(t task, read *reading, checksum string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sp := e.space(t.namespace)
	r := sp.retained[t.name]
	if r == nil || r.UID != read.facts.UID {
		return
	}
	r.remember(read.evidence, checksum)
	d := newDirty()
	d.checkpoints[t.name] = struct{}{}
	e.flush(sp, d)
}

// isWanted reports whether a child is referenced and not in the stream.
func (e *engine) isWanted(t task) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	sp, key := e.space(t.namespace), childKey{t.kind, t.name}
	c := sp.children[key]
	return len(sp.referencing[key]) > 0 && (c == nil || c.borrowed)
}

// isUnstreamed reports whether changes of a child may reach no stream, so that
// it must be read again: it is known from a live read alone, or it is a Secret
// that is missing and may come back without the label that is streamed by.
func (e *engine) isUnstreamed(t task) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	sp, key := e.space(t.namespace), childKey{t.kind, t.name}
	if len(sp.referencing[key]) == 0 {
		return false
	}
	c := sp.children[key]
	return c != nil && c.borrowed || c == nil && t.kind == v1alpha1.KindSecret
}

// borrow takes a child that a live read found. The stream, if it has the child
// by now, knows better.
func (e *engine) borrow(s *seen) {
	fact, ok := s.fact.(*childFact)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	sp, key := e.space(s.namespace), childKey{fact.Kind, fact.Name}
	known := sp.children[key]
	if len(sp.referencing[key]) == 0 || known != nil && !known.borrowed {
		return
	}
	if known != nil && known.UID == fact.UID && known.ResourceVersion == fact.ResourceVersion {
		return
	}
	d := newDirty()
	sp.putChild(&child{childFact: fact, borrowed: true}, d)
	e.flush(sp, d)
}

// missing takes the answer of a live read that a child does not exist.
func (e *engine) missing(t task) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sp, key := e.space(t.namespace), childKey{t.kind, t.name}
	if c := sp.children[key]; c != nil && !c.borrowed {
		return
	}
	d := newDirty()
	sp.removeChild(key, d)
	e.flush(sp, d)
}
