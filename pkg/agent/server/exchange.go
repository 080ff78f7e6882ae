package server

import (
	"context"
	"maps"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// needsNoWorker reports that the output differs from the committed set in files
// alone that no worker loads: general ones that ask for no reload.
func (a *agent) needsNoWorker(files []api.File) bool {
	if a.current == nil {
		return false
	}
	now, next := a.current.byPath(), (&set{Files: files}).byPath()
	loaded := func(file api.File) bool { return file.Kind != api.KindGeneral || file.ReloadOnChange }
	for path, file := range next {
		if now[path] != file && loaded(file) {
			return false
		}
	}
	for path, file := range now {
		if next[path] != file && loaded(file) {
			return false
		}
	}
	return !maps.Equal(now, next)
}

// exchange makes a set current beneath a worker that is what the set asks for
// already. The set takes over the nonce of the one before, by which that worker
// stays known; a master that restarts meanwhile loads the set with that nonce.
//
// From the switch on it does not depend on whoever asked, like a reload.
func (a *agent) exchange(ctx context.Context, act activation, staged *set, outcome api.Outcome) (*api.Result, error) {
	ctx = context.WithoutCancel(ctx)
	p := act.pending
	p.Set = staged.ID
	if err := a.switchForward(ctx, p); err != nil {
		return nil, err
	}
	return a.exchanged(ctx, act, staged, outcome), nil
}

// exchanged records a set that was made current beneath the worker.
func (a *agent) exchanged(ctx context.Context, act activation, staged *set, outcome api.Outcome) *api.Result {
	a.commit(staged, &act.pending)
	result := a.result(staged.PlanID, act.began, outcome)
	result.OpResults = act.ops
	if !act.finished.IsZero() {
		result.Timing.StageMicros = act.finished.Sub(act.began).Microseconds()
	}
	a.journal.LastApply = result
	a.metrics.applies.WithLabelValues(string(outcome)).Inc()
	if err := a.save(); err != nil {
		klog.FromContext(ctx).Error(err, "Could not record the outcome of an apply, will try again")
	} else if err := a.tidy(); err != nil {
		klog.FromContext(ctx).Error(err, "Could not remove superseded sets")
	}
	klog.FromContext(ctx).Info("Exchanged files beneath the worker", "outcome", outcome, "plan", result.PlanID, "token", result.AppliedToken,
		"worker", result.HAProxy.WorkerPID)
	return result
}
