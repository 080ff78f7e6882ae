package server

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// glance is a comparison of the worker with the current set that began as soon as
// operations were announced, while the next set was still being sent.
type glance struct {
	began  time.Time
	done   chan struct{}
	set    string
	worker workerID
	// servers are those of the set's configuration.
	servers serverReader
	err     error
}

// maxGlanceAge is how old one may be when it is used. A body of changes is there
// sooner; behind a longer one the worker is read again.
const maxGlanceAge = 500 * time.Millisecond

// glance begins, if the manifest asks for what it is good for and nothing speaks
// against it yet. It goes by what is published, without the lock: whoever uses it
// holds it against what is current by then. A glance must be closed, which waits.
func (a *agent) glance(ctx context.Context, m *api.Manifest) *glance {
	seen := a.published.Load()
	if m.Mode != api.ModeAuto || !m.InPlaceOps || len(m.Ops) == 0 || seen.current == nil ||
		seen.state.Phase != api.PhaseConfigured || seen.state.WorkerStatus != api.WorkerOwned {
		return nil
	}
	return a.compareBeside(ctx, seen.current, seen.worker, seen.moved)
}

// compareBeside compares the worker with a set at its own socket, and lets the
// caller go on.
func (a *agent) compareBeside(ctx context.Context, with *set, worker workerID, moved movedServers) *glance {
	g := &glance{began: time.Now(), done: make(chan struct{}), set: with.ID, worker: worker, servers: moved.read}
	if moved.set != with.ID {
		g.servers = readServers(func() ([]byte, error) {
			return os.ReadFile(filepath.Join(a.layout.set(with.ID), setFiles, api.ConfigPath))
		})
	}
	go func() {
		defer close(g.done)
		g.err = a.compareAt(context.WithoutCancel(ctx), with, view{socket: a.haproxy.worker, servers: g.servers})
	}()
	return g
}

// is reports that the glance went to this worker and this set, just now.
func (g *glance) is(current *set, seen observation) bool {
	return g != nil && g.set == current.ID && g.worker == seen.worker() && time.Since(g.began) <= maxGlanceAge
}

// close waits for the end of the comparison.
func (g *glance) close() {
	if g != nil {
		<-g.done
	}
}

// ahead is what an apply in place finds out while its set is still being made
// durable: that the worker is what the current set says, and where the next set
// differs. So only that has to be read again after the operations, of thousands
// of servers and rows.
type ahead struct {
	done     chan struct{}
	operator *operator
	only     scope
	err      error
}

// lookAhead begins. The files of the next set must be written; close must be
// called, and waits.
func (a *agent) lookAhead(ctx context.Context, next *set, ops []plan.Operation, before *glance) *ahead {
	h := &ahead{done: make(chan struct{})}
	from, worker, l := a.current, a.haproxy.worker, a.layout
	if !before.is(from, a.seen) {
		before = a.compareBeside(ctx, from, a.seen.worker(), a.moved)
	}
	go func() {
		defer close(h.done)
		defer before.close()
		if h.operator, h.err = newOperator(worker, l, next); h.err != nil {
			return
		}
		before.close()
		if h.err = before.err; h.err != nil {
			return
		}
		h.only.fill(from, next, ops)
		if was, _ := before.servers(); was != nil && h.operator.servers != nil {
			h.operator.servers.addDiffering(was, h.only.backends)
		}
	}()
	return h
}

// movedServers are those of the set that the last apply in place led to, which
// the next one starts from.
type movedServers struct {
	set  string
	read serverReader
}

// read gives the servers that the worker is led to.
func (h *ahead) read() serverReader {
	servers := h.operator.servers
	return func() (*backends, error) { return servers, nil }
}

// close waits for what was begun and lets go of it.
func (h *ahead) close() {
	if h == nil {
		return
	}
	<-h.done
	if h.operator != nil {
		h.operator.close()
	}
}

// fill takes in what the operations name, and files that are not the same.
func (s *scope) fill(from, next *set, ops []plan.Operation) {
	s.files, s.backends = make(map[string]bool), make(map[string]bool)
	for _, op := range ops {
		if op.Backend != "" {
			s.backends[op.Backend] = true
		}
		if op.Path != "" {
			s.files[op.Path] = true
		}
	}
	before := from.byPath()
	for path, file := range next.byPath() {
		if file != before[path] {
			s.files[path] = true
		}
	}
}
