package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// leastWait keeps a reload that is due, and cannot be carried out yet, from
// being tried without a pause.
const leastWait = 100 * time.Millisecond

// dueAt is when the next reload may happen. A reload that is scheduled already
// keeps its time: newer applies join it and never push it back.
func (a *agent) dueAt() time.Time {
	if s := a.journal.Scheduled; s != nil {
		return s.Due
	}
	if due := a.lastReload.Add(a.config.MinReloadInterval); due.After(time.Now()) {
		return due
	}
	return time.Now()
}

// isDue reports that the scheduled reload should have happened.
func (a *agent) isDue() bool {
	at := a.published.Load().state.ReloadPendingAt
	return at != nil && !time.Now().Before(*at)
}

// untilNext is how long the watch may sleep.
func (a *agent) untilNext() time.Duration {
	at := a.published.Load().state.ReloadPendingAt
	if at == nil {
		return watchInterval
	}
	return max(leastWait, min(watchInterval, time.Until(*at)))
}

// postpone takes a finished set and leaves its reload to the watch. Nothing is
// switched: the current set stays the one that a worker proved.
func (a *agent) postpone(ctx context.Context, act activation, staged *set) (*api.Result, error) {
	if a.journal.Scheduled == nil {
		a.metrics.reloadsScheduled.Inc()
	}
	next := &scheduled{
		Set: staged.ID, Plan: staged.ref(), Token: act.pending.Token, Manifest: act.pending.Manifest,
		Due: a.dueAt().UTC().Truncate(time.Millisecond),
	}
	result, err := a.enqueue(ctx, next, staged, act)
	if err != nil {
		return nil, err
	}
	if err := a.slots.keep(a.journal); err != nil {
		klog.FromContext(ctx).Error(err, "Could not remove superseded sets")
	}
	return result, nil
}

// retake answers an apply of the output that is scheduled already. The token is
// a newer one, and what will be loaded is the same.
func (a *agent) retake(ctx context.Context, up *upload, p pending) (*api.Result, error) {
	if err := up.staging.discard(); err != nil {
		klog.FromContext(ctx).Error(err, "Could not remove an upload that was not needed")
	}
	next := *a.journal.Scheduled
	next.Token, next.Manifest = p.Token, p.Manifest
	return a.enqueue(ctx, &next, a.scheduled, activation{began: up.began})
}

// enqueue records the scheduled reload and says when it is due.
func (a *agent) enqueue(ctx context.Context, next *scheduled, staged *set, act activation) (*api.Result, error) {
	j, before := a.journal, *a.journal
	j.Scheduled = next
	result := a.result(staged.PlanID, act.began, api.OutcomeScheduled)
	result.OpResults = act.ops
	due := next.Due
	result.ReloadPendingAt = &due
	j.LastApply = result
	if err := a.save(); err != nil {
		*j = before
		return nil, err
	}
	a.scheduled = staged
	a.metrics.applies.WithLabelValues(string(api.OutcomeScheduled)).Inc()
	select {
	case a.wake <- struct{}{}:
	default: // it will look anyway
	}
	klog.FromContext(ctx).V(2).Info("Scheduled a reload", "plan", staged.PlanID, "token", next.Token, "due", due)
	return result, nil
}

// fire carries out the scheduled reload.
func (a *agent) fire(ctx context.Context) {
	if a.acquire(ctx) != nil {
		return // the next process finds it in the journal
	}
	defer a.release()
	defer a.publish()
	s := a.journal.Scheduled
	if s == nil || time.Now().Before(s.Due) {
		return // an apply that came first took care of it
	}
	if a.dropOutranked(ctx) {
		return
	}
	if err := verifyTree(a.layout, a.scheduled); err != nil {
		a.metrics.violations.WithLabelValues(violationScheduled).Inc()
		a.drop(ctx, &api.ErrorDetail{Stage: api.StageFiles, Message: clip(err.Error())})
		return
	}
	seen, _ := a.haproxy.observe(ctx) // its error is about the current worker
	if !a.hasRoom(ctx, seen) {
		return
	}
	act := activation{began: time.Now(), pending: pending{Set: s.Set, Token: s.Token, Manifest: s.Manifest}}
	if _, err := a.activate(ctx, act, a.scheduled); err != nil {
		// Nothing was loaded. A disk that refuses to be written may be well
		// again soon, so the reload stays due; the watch interval paces it.
		klog.FromContext(ctx).Error(err, "Could not carry out the scheduled reload, will try again", "set", s.Set)
		again := *s // readers of the published state still hold the other
		again.Due = time.Now().Add(watchInterval).UTC()
		a.journal.Scheduled = &again
	}
}

// dropOutranked gives up the scheduled reload of a term that is over: after this
// pod heard of a later one it loads nothing from an earlier one.
func (a *agent) dropOutranked(ctx context.Context) bool {
	s := a.journal.Scheduled
	if s == nil || s.Token.LeaderEpoch >= a.journal.Fence.LeaderEpoch {
		return false
	}
	a.drop(ctx, &api.ErrorDetail{Stage: api.StageFenced,
		Message: fmt.Sprintf("epoch %d was heard of before the reload of epoch %d was due", a.journal.Fence.LeaderEpoch, s.Token.LeaderEpoch)})
	return true
}

// drop gives up the scheduled set and records why.
func (a *agent) drop(ctx context.Context, why *api.ErrorDetail) {
	plan := a.journal.Scheduled.Plan.ID
	a.journal.Scheduled, a.scheduled = nil, nil
	result := a.result(plan, time.Now(), api.OutcomeRejected)
	result.Rollback, result.Error = true, why
	a.journal.LastApply = result
	a.metrics.rejections.WithLabelValues(why.Stage).Inc()
	a.settle(ctx, result)
}

// unschedule is a revert of an output that no worker has loaded yet: its reload
// is called off, and no worker has to change.
func (a *agent) unschedule(ctx context.Context, up *upload, p pending) (*api.Result, error) {
	j, before := a.journal, *a.journal
	j.Scheduled = nil
	if a.current != nil && a.current.isOutput() {
		// A bootstrap pod that took nothing stays one.
		j.AppliedToken, j.LastManifest = p.Token, p.Manifest
		j.Generation++
	}
	if err := a.save(); err != nil {
		*j = before
		return nil, err
	}
	a.scheduled = nil
	a.metrics.rollbacks.Inc()
	a.metrics.generation.Set(float64(j.Generation))
	result := a.result(up.manifest.PlanID, up.began, api.OutcomeFileOnly)
	result.Rollback = true
	j.LastApply = result
	a.metrics.applies.WithLabelValues(string(result.Mode)).Inc()
	if err := errors.Join(up.staging.discard(), a.slots.keep(j)); err != nil {
		klog.FromContext(ctx).Error(err, "Could not remove the set whose reload was called off")
	}
	klog.FromContext(ctx).Info("Called off a scheduled reload", "plan", up.manifest.PlanID, "token", p.Token)
	return result, a.save()
}

// loadScheduled takes up a reload that an earlier process scheduled.
func (a *agent) loadScheduled(ctx context.Context) {
	s := a.journal.Scheduled
	if s == nil {
		return
	}
	loaded, err := loadSet(a.layout, s.Set)
	if err == nil && loaded.ref() != s.Plan {
		err = fmt.Errorf("set %s holds plan %s, scheduled is %s", s.Set, loaded.PlanID, s.Plan.ID)
	}
	if err == nil {
		err = verifyTree(a.layout, loaded)
	}
	if err == nil {
		a.scheduled = loaded
		// A clock that was set back must not put the reload off for ever.
		if latest := time.Now().Add(maxReloadInterval).UTC(); s.Due.After(latest) {
			s.Due = latest
		}
		return
	}
	klog.FromContext(ctx).Error(err, "Lost a scheduled set", "set", s.Set)
	a.metrics.violations.WithLabelValues(violationScheduled).Inc()
	a.journal.Scheduled = nil
}
