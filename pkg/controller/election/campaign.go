package election

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// candidate is one life of the elector: from standing for election to the end
// of the term that it won, if it won one.
type candidate struct {
	mu   sync.Mutex
	last *coordinationv1.Lease
	term *Term
}

// observe is called by the lock, in order.
func (c *candidate) observe(lease *coordinationv1.Lease) {
	c.mu.Lock()
	c.last = lease
	term := c.term
	c.mu.Unlock()
	if term != nil {
		term.observe(lease)
	}
}

// begin makes the Lease last seen the one that the term is held by, if it still
// names this process. From here on every Lease seen is judged by it.
func (c *candidate) begin(e *Election, l *lock, end context.CancelCauseFunc) *Term {
	c.mu.Lock()
	defer c.mu.Unlock()
	won := record.ElectionLease(c.last)
	c.term = newTerm(e, l, won, end)
	if err := fencing.Leads(won, c.term.facts()); err != nil {
		end(err)
	}
	return c.term
}

// campaign runs the elector until it has lost, or until ctx ends and the term
// is drained. The elector has its own context: it must renew through a drain.
func (e *Election) campaign(ctx context.Context) (led bool, err error) {
	c := &candidate{}
	l := newLock(e.leases, e.settings, c.observe)
	electorCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	won := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          l,
		LeaseDuration: e.settings.LeaseDuration,
		RenewDeadline: e.settings.RenewDeadline,
		RetryPeriod:   e.settings.RetryPeriod,
		// The elector would free the Lease before the work has stopped, and even
		// one that another process holds by then.
		ReleaseOnCancel: false,
		Name:            e.settings.LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { won <- leading },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return false, fmt.Errorf("make an elector: %w", err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		elector.Run(electorCtx)
	}()
	halt := func() { stop(); <-stopped }

	select {
	case <-ctx.Done():
		halt()
		e.releaseUnused(ctx, l, c)
		return false, nil
	case leading := <-won:
		return e.lead(ctx, leading, c, l, halt)
	}
}

// lead serves the term that was won, and then stops the elector before the
// Lease is released.
func (e *Election) lead(ctx, leading context.Context, c *candidate, l *lock, halt func()) (bool, error) {
	termCtx, end := context.WithCancelCause(leading)
	defer end(errOver)
	t := c.begin(e, l, end)
	led, err := e.serve(ctx, termCtx, t)
	halt()
	e.metrics.Epoch.Set(0)
	if ctx.Err() != nil || !led {
		e.release(ctx, l, t)
	}
	return led, err
}

// releaseUnused frees a Lease that was won in the moment of the stop.
func (e *Election) releaseUnused(ctx context.Context, l *lock, c *candidate) {
	held := true
	t := c.begin(e, l, func(error) { held = false })
	if held {
		e.release(ctx, l, t)
	}
}
