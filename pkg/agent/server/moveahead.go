package server

import (
	"context"
	"os"
	"path/filepath"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// ahead is what an apply in place finds out while its set is still being put
// together and made durable: that the worker is what the current set says, and
// where the next set differs. So only that has to be read again after the
// operations, of thousands of servers and rows.
type ahead struct {
	worker string // its socket
	layout layout
	from   *set
	// servers are those of the current set's configuration. compared is closed
	// when the worker was held against that set; drift is what came of it.
	servers  serverReader
	compared chan struct{}
	drift    error

	done     chan struct{} // nil before follow
	operator *operator
	only     scope
	err      error
}

// lookAhead begins to compare the worker with the current set, at the worker's
// own socket. What it returns must be closed, which waits.
func (a *agent) lookAhead(ctx context.Context) *ahead {
	h := &ahead{worker: a.haproxy.worker, layout: a.layout, from: a.current, servers: a.moved.read, compared: make(chan struct{})}
	if a.moved.set != h.from.ID {
		h.servers = readServers(func() ([]byte, error) {
			return os.ReadFile(filepath.Join(h.layout.set(h.from.ID), setFiles, api.ConfigPath))
		})
	}
	go func() {
		defer close(h.compared)
		h.drift = a.compareAt(context.WithoutCancel(ctx), h.from, view{socket: h.worker, servers: h.servers})
	}()
	return h
}

// follow goes on with the next set, whose files must be written.
func (h *ahead) follow(next *set, ops []plan.Operation) {
	h.done = make(chan struct{})
	go func() {
		defer close(h.done)
		h.only.fill(h.from, next, ops)
		var known serverReader
		if !h.only.files[api.ConfigPath] {
			known = h.servers
		}
		if h.operator, h.err = newOperator(h.worker, h.layout, next, known); h.err != nil {
			return
		}
		<-h.compared
		if h.err = h.drift; h.err != nil {
			return
		}
		if was, _ := h.servers(); known == nil && was != nil && h.operator.servers != nil {
			h.operator.servers.addDiffering(was, h.only.backends)
		}
	}()
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
	<-h.compared
	if h.done != nil {
		<-h.done
	}
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
