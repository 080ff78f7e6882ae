package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

// checks makes the last check before an apply, for all pods that wait for one
// at once: a fleet of n bootstrap pods is then read a few times and not n times.
// Each check still begins after its pod asked for it.
type checks struct {
	// turn is held while the fleet is read.
	turn chan struct{}

	mu      sync.Mutex
	waiting []*inquiry
	// applying is when the check of a pod passed whose start is under way.
	applying map[string]time.Time
}

// inquiry is one pod that is about to be given the checkpoint.
type inquiry struct {
	launch
	answered bool
	err      error
}

// settled leaves out the pods that are being given the checkpoint just now.
// They were bootstrap pods when they were checked, and answer only when the
// apply is through. One that takes longer than a state may is asked like any
// other: it may have gone silent.
func (c *checks) settled(pods []Pod, timeout time.Duration) []Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool {
		since, ok := c.applying[p.UID]
		return ok && time.Since(since) < timeout
	})
}

func (c *checks) isApplying(uid string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.applying[uid]
	return ok
}

// ended forgets a pod whose start is over, or about to be checked anew.
func (c *checks) ended(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.applying, uid)
}

// guard is called by a start immediately before each apply.
func (r *Recovery) guard(ctx, prep context.Context, l launch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(prep, cancel)()
	c, q := &r.checks, &inquiry{launch: l}
	c.mu.Lock()
	delete(c.applying, l.pod.UID)
	c.waiting = append(c.waiting, q)
	c.mu.Unlock()
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		c.mu.Lock()
		c.waiting = slices.DeleteFunc(c.waiting, func(other *inquiry) bool { return other == q })
		c.mu.Unlock()
		return errCancelled
	}
	if !q.answered {
		r.answer(ctx)
	}
	<-c.turn
	return q.err
}

// answer makes one check for all that wait. The turn is held.
func (r *Recovery) answer(ctx context.Context) {
	c := &r.checks
	c.mu.Lock()
	batch := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	byTarget := map[string][]*inquiry{}
	for _, q := range batch {
		// One term has one intent, so there is one target as long as nobody
		// tampers; then each is judged by its own.
		byTarget[q.decision.target.Checksum] = append(byTarget[q.decision.target.Checksum], q)
	}
	for _, same := range byTarget {
		bootstrap, err := r.recheck(ctx, same[0].launch)
		for _, q := range same {
			q.answered, q.err = true, err
			if err == nil && !slices.ContainsFunc(bootstrap, func(p Pod) bool { return p.UID == q.pod.UID }) {
				q.err = moved(q.launch)
			}
			if q.err == nil {
				c.mu.Lock()
				if c.applying == nil {
					c.applying = map[string]time.Time{}
				}
				c.applying[q.pod.UID] = time.Now()
				c.mu.Unlock()
			}
		}
	}
}

func moved(l launch) *selection.Refusal {
	return &selection.Refusal{Reason: selection.ReasonPodMoved, Checksum: l.decision.target.Checksum, Quiet: true,
		Message: fmt.Sprintf("pod %s: expected a bootstrap pod right before its start, found another state or no such pod", l.pod.Name),
		Do:      "It is looked at again by itself"}
}

// recheck requires the fleet as it is now to agree, and then the intent to name
// the checkpoint. It returns the bootstrap pods.
func (r *Recovery) recheck(ctx context.Context, l launch) ([]Pod, error) {
	target := l.decision.target
	pods, _ := r.parts.Fleet.Pods()
	fleet := r.look(ctx, r.checks.settled(pods, r.settings.Timeout), l.since)
	if ctx.Err() != nil {
		return nil, errCancelled
	}
	split := judgeFleet(fleet, r.settings.Template.UID, &target)
	if f := joined(split.Refusals); f != nil {
		return nil, f
	}
	// Last, so that nothing slow lies between it and the apply.
	callCtx, cancel := context.WithTimeout(ctx, r.settings.Timeout)
	defer cancel()
	err := r.parts.Term.CheckIntent(callCtx, target.PlanID, target.Checksum)
	switch {
	case err == nil:
		return split.Bootstrap, nil
	case errors.Is(err, fencing.ErrFenced):
		return nil, err
	case errors.Is(err, fencing.ErrSuperseded):
		return nil, &selection.Refusal{Reason: selection.ReasonIntentSuperseded, Checksum: target.Checksum,
			Message: fmt.Sprintf("retained-state lease: expected an intent for plan %q, found a newer one", target.PlanID),
			Do:      selection.DoFixRendering}
	}
	f := unreadable(ctx, selection.ReasonIntentUnreadable, "leases: expected to read the intent, found", err)
	f.Checksum = target.Checksum
	return nil, f
}
