package recovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// minPause is the least time between two attempts, however often discovery
// wakes them.
const minPause = 200 * time.Millisecond

// Cause is why nothing can be rendered.
type Cause struct{ Reason, Message string }

// Recovery serves one term and is thrown away with it. Its methods are safe for
// concurrent use.
type Recovery struct {
	settings Settings
	parts    Parts
	metrics  *Metrics

	// wake holds at most one wish to look again.
	wake chan struct{}
	// flight counts the applies that are under way, and lets no more begin.
	flight flight
	notes  notes

	mu sync.Mutex
	// cause is nil while nothing is to be recovered.
	cause *Cause
	// cancelled says that the term has an output of its own.
	cancelled bool
	// converged asks Run to take back the mark on the Lease.
	converged bool
	// endings are the starts that ended since the last step.
	endings []ending

	// starts are the goroutines of starts; Run waits for them.
	starts sync.WaitGroup
	checks checks

	// Only the goroutine of Run uses these.
	active activation
	// seen is when each pod was discovered first in this term.
	seen map[string]time.Time
	// flying are the pods that are being started; each can be given up.
	flying map[string]context.CancelFunc
	held   map[string]hold
}

// New makes a Recovery that does nothing until it is told that rendering is
// blocked.
func New(settings Settings, parts Parts, metrics *Metrics) *Recovery {
	return &Recovery{
		settings: settings.withDefaults(), parts: parts, metrics: metrics,
		wake: make(chan struct{}, 1), checks: checks{turn: make(chan struct{}, 1)},
		seen: map[string]time.Time{}, flying: map[string]context.CancelFunc{}, held: map[string]hold{},
	}
}

// Blocked tells that a render failed, or its output was refused, in a term
// without a validated output of its own. After Cancel it does nothing.
func (r *Recovery) Blocked(reason, message string) {
	cause := &Cause{Reason: reason, Message: message}
	r.mu.Lock()
	news := !r.cancelled && (r.cause == nil || *r.cause != *cause)
	if news {
		r.cause = cause
	}
	r.mu.Unlock()
	if news {
		r.Wake()
	}
}

// Wake makes the Recovery look at the fleet again: discovery changed.
func (r *Recovery) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Cancel ends recovery for the rest of the term, because a new render was
// accepted. It returns when no start is under way any more: each has returned,
// or was resolved by reading the pod. Only then may the new intent be recorded.
// With an error some are still under way; none will begin, and Cancel may be
// called again.
func (r *Recovery) Cancel(ctx context.Context) error {
	r.mu.Lock()
	r.cause, r.cancelled = nil, true
	r.parts.Sink.Health("")
	r.mu.Unlock()
	if err := r.flight.land(ctx); err != nil {
		return fmt.Errorf("waiting for pods that are being started from a checkpoint: %w", err)
	}
	return nil
}

// Converged tells that a current render runs on the whole fleet.
func (r *Recovery) Converged() {
	r.mu.Lock()
	r.cause, r.cancelled, r.converged = nil, true, true
	r.metrics.Active.Set(0)
	r.mu.Unlock()
	r.Wake()
}

// Run works until ctx ends, which is the end of the term, and everything it
// started has returned.
func (r *Recovery) Run(ctx context.Context) {
	// The next term says anew whether it recovers. Its claim takes the mark off
	// the Lease.
	defer r.metrics.Active.Set(0)
	defer r.parts.Sink.Health("")
	defer r.starts.Wait()
	prep, done := r.flight.prepare(ctx)
	defer done()
	timer := time.NewTimer(idlePause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Reset(r.step(ctx, prep))
		select {
		case <-ctx.Done():
			return
		case <-time.After(minPause):
		}
	}
}

// step does what is due and tells how long nothing will be. ctx is the term's,
// prep ends with recovery.
func (r *Recovery) step(ctx, prep context.Context) time.Duration {
	r.mu.Lock()
	cause, converged, endings := r.cause, r.converged, r.endings
	r.endings = nil
	r.mu.Unlock()
	for _, e := range endings {
		r.landed(ctx, e)
	}
	r.abandon()
	if converged {
		return r.retire(ctx)
	}
	if cause == nil || prep.Err() != nil {
		return idlePause
	}
	return r.attempt(ctx, prep, *cause)
}

// retire takes the mark off the Lease, once for a term.
func (r *Recovery) retire(ctx context.Context) time.Duration {
	if r.active.retired {
		return idlePause
	}
	callCtx, cancel := context.WithTimeout(ctx, r.settings.Timeout)
	defer cancel()
	if err := r.parts.Term.Activate(callCtx, nil); err != nil {
		klog.FromContext(ctx).Info("Did not take the mark of recovery off the retained-state lease", "err", err)
		if errors.Is(err, fencing.ErrFenced) {
			r.active.retired = true // the term is over, and the next claim does it
		}
		return r.settings.Retry
	}
	r.active.retired = true
	if r.active.used {
		klog.FromContext(ctx).Info("Ended recovery, a current render runs on the fleet")
	}
	return idlePause
}
