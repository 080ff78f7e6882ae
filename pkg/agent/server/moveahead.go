package server

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

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
func (a *agent) lookAhead(ctx context.Context, next *set, ops []plan.Operation) *ahead {
	h := &ahead{done: make(chan struct{})}
	from, worker, l := a.current, a.haproxy.worker, a.layout
	before := readServers(func() ([]byte, error) {
		return os.ReadFile(filepath.Join(l.set(from.ID), setFiles, api.ConfigPath))
	})
	if a.moved.set == from.ID {
		before = a.moved.read
	}
	go func() {
		defer close(h.done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTimeout)
		defer cancel()
		var both errgroup.Group
		both.Go(func() error { return a.compareAt(ctx, from, view{socket: worker, servers: before}) })
		both.Go(func() (err error) {
			h.operator, err = newOperator(worker, l, next)
			return err
		})
		if h.err = both.Wait(); h.err == nil {
			h.only.fill(from, next, ops)
			if was, _ := before(); was != nil && h.operator.servers != nil {
				h.operator.servers.addDiffering(was, h.only.backends)
			}
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
