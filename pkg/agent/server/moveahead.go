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
	from := a.current
	go func() {
		defer close(h.done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTimeout)
		defer cancel()
		h.err = h.look(ctx, a, from, next)
		if h.err == nil {
			h.only.add(from, next, ops)
		}
	}()
	return h
}

func (h *ahead) look(ctx context.Context, a *agent, from, next *set) error {
	before, err := a.layout.serversOf(from)
	if err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error { return a.compareAt(ctx, from, view{socket: a.haproxy.worker, servers: before}) })
	both.Go(func() (err error) {
		h.operator, err = newOperator(a.haproxy.worker, a.layout, next)
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	h.only = scope{files: make(map[string]bool), backends: make(map[string]bool)}
	if h.operator.servers != nil && before != nil {
		h.only.backends = h.operator.servers.differing(before)
	}
	return nil
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

// add takes in what the operations name, and files that are not the same.
func (s *scope) add(from, next *set, ops []plan.Operation) {
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

// serversOf reads the servers of a set's configuration, nil if conditions decide
// which are in force.
func (l layout) serversOf(s *set) (*backends, error) {
	config, err := os.ReadFile(filepath.Join(l.set(s.ID), setFiles, api.ConfigPath))
	if err != nil {
		return nil, err
	}
	servers, ok := configuredServers(string(config))
	if !ok {
		return nil, nil
	}
	return servers, nil
}
