package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// errNoSet says that the committed set cannot be read.
var errNoSet = errors.New("the committed set's description is unreadable")

// linkError says that somebody else moved the symlink "current".
type linkError struct{ Target, Want string }

func (e *linkError) Error() string {
	return fmt.Sprintf("current leads to %q, committed is %q", e.Target, e.Want)
}

// start brings the agent to where it may answer: state read, an interrupted
// apply resolved, files hashed, both sockets of HAProxy heard.
func (a *agent) start(ctx context.Context) error {
	if err := a.acquire(ctx); err != nil {
		return err
	}
	defer a.release()
	if err := a.remember(ctx); err != nil {
		return err
	}
	if a.journal.Pending != nil {
		if err := a.resolvePending(ctx); err != nil {
			return fmt.Errorf("resolving an interrupted apply: %w", err)
		}
	}
	if err := errors.Join(a.slots.keep(a.journal), a.slots.sweepLinks()); err != nil {
		// A full or failing disk must not keep the pod's state unreadable.
		klog.FromContext(ctx).Error(err, "Could not remove leftovers")
	}
	if err := a.verify(ctx); err != nil {
		return err
	}
	if err := a.awaitHAProxy(ctx); err != nil {
		return err
	}
	a.metrics.generation.Set(float64(a.journal.Generation))
	a.publish()
	close(a.started)
	klog.FromContext(ctx).Info("Started", "phase", a.phase(), "set", a.journal.Current, "plan", a.applied().ID,
		"haproxy", a.seen.Info.FullVersion, "worker", a.seen.Info.PID)
	return nil
}

// remember reads the journal. A pod that has files and no journal lost its
// state: it may be serving, so it is disowned and never taken for untouched.
func (a *agent) remember(ctx context.Context) error {
	j, err := loadJournal(a.layout)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Lost the state of this pod")
		a.metrics.violations.WithLabelValues(violationJournal).Inc()
		j = &journal{Disowned: true}
		if target, err := os.Readlink(a.layout.current()); err == nil {
			slot, _ := slotOfTarget(target)
			if found, err := describeSlot(a.layout, slot); err == nil {
				j.Current = found.ID
			}
		}
		if j.Current == "" {
			// Nothing that could be restored; a name is needed all the same,
			// and no worker will ever carry this one.
			if j.Current, err = newSetID("s0"); err != nil {
				return err
			}
		}
	}
	a.journal = j
	if a.config.TemplateUID != "" {
		a.journal.TemplateUID = a.config.TemplateUID
	}
	a.loadCurrent(ctx)
	a.loadScheduled(ctx)
	return a.save()
}

func (a *agent) loadCurrent(ctx context.Context) {
	current, err := loadSet(a.layout, a.journal.Current)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not read the committed set")
	}
	if current != nil && current.isOutput() && len(current.plan) == 0 {
		klog.FromContext(ctx).Info("Lost the plan of the committed set, which can be sent again", "set", current.ID, "plan", current.PlanID)
	}
	a.current = current
}

// resolvePending finds out what became of an apply whose outcome the last
// process did not record: the worker's nonce says whether it was loaded.
// Without a worker, for as long as a reload may take, the set before comes back,
// so that a container that cannot start with the new one gets a way out.
func (a *agent) resolvePending(ctx context.Context) error {
	interrupted := a.journal.Pending
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "set", interrupted.Set)
	deadline := time.Now().Add(a.haproxy.wait)
	seen, err := a.haproxy.observe(ctx)
	for err != nil && time.Now().Before(deadline) {
		if err := pause(ctx, pollMax); err != nil {
			return err
		}
		seen, err = a.haproxy.observe(ctx)
	}
	adopted, loadErr := loadSet(a.layout, interrupted.Set)
	if err == nil && loadErr == nil && seen.Info.Description == adopted.nonce() && (adopted.Moved == nil || adopted.Moved.is(seen)) {
		err := verifyTree(a.layout, adopted)
		if target, _ := os.Readlink(a.layout.current()); err == nil && target == currentTarget(interrupted.Set) {
			logger.Info("Adopted an apply that was interrupted after its reload", "plan", adopted.PlanID)
			return a.adopt(ctx, adopted, interrupted, seen)
		}
		logger.Error(err, "Could not adopt an interrupted apply")
	}
	if loadErr == nil && adopted.Moved != nil {
		interrupted.Worker = workerID{} // operations may have changed it, so that it is loaded anew
	}
	logger.Info("Undid an apply that was interrupted before its end")
	return a.undo()
}

// adopt commits what an earlier process switched to. Whether a worker with its
// nonce came of that process's reload or of a container that started beside the
// switch is not known, and only the former must have read one whole set.
func (a *agent) adopt(ctx context.Context, adopted *set, p *pending, seen observation) error {
	outcome := api.OutcomeFileOnly
	switch {
	case adopted.Moved != nil:
		outcome = api.OutcomeRuntime
	case seen.worker() != p.Worker:
		again := a.haproxy.reload(ctx, adopted.nonce())
		a.noteReload(again)
		if again.Result != resultLoaded {
			return errors.Join(again.Problem, a.undo())
		}
		outcome, seen = api.OutcomeReload, again.After
	}
	a.commit(adopted, p)
	a.record(ctx, seen, nil)
	a.journal.LastApply = a.result(adopted.PlanID, time.Now(), outcome)
	return a.save()
}

// amend has a worker loaded anew that carries the nonce of the committed set and
// may have read files of the one that was taken back: it was started between a
// switch and its end, and HAProxy opens its files one after the other.
func (a *agent) amend(ctx context.Context) {
	u := a.journal.Undone
	if u == nil || a.seenErr != nil || a.seen.Info.Description != a.nonce() {
		return
	}
	if a.seen.worker() != *u {
		if time.Since(a.amended) < watchInterval {
			return // one that fails is not repeated without a pause
		}
		a.amended = time.Now()
		klog.FromContext(ctx).Info("Found a worker that was started beside a switch, will reload", "worker", a.seen.Info.PID, "set", a.journal.Current)
		outcome := a.haproxy.reload(context.WithoutCancel(ctx), a.nonce())
		a.noteReload(outcome)
		if outcome.Result != resultLoaded {
			a.record(ctx, outcome.After, outcome.Problem)
			return
		}
		a.seen = outcome.After
	}
	a.journal.Undone, a.dirty = nil, true
	a.record(ctx, a.seen, nil)
}

// awaitHAProxy waits until both sockets lead to one worker.
func (a *agent) awaitHAProxy(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	for waited := false; ; waited = true {
		seen, err := a.haproxy.observeBoth(ctx)
		if err == nil {
			a.record(ctx, seen, nil)
			a.amend(ctx)
			return nil
		}
		if !waited {
			logger.Info("Waiting for HAProxy", "reason", err)
		}
		if err := pause(ctx, pollMax); err != nil {
			return err
		}
	}
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
