package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// holds reports that a set has the file, hashed now.
func holds(l layout, id string, file api.File) bool {
	root, err := os.OpenRoot(filepath.Join(l.set(id), setFiles))
	if err != nil {
		return false
	}
	defer root.Close()
	got, _, err := hashFile(root, file.Path)
	return err == nil && got == file.State()
}

// activation is what a finished set is switched to for.
type activation struct {
	began   time.Time
	pending pending
	// ops are the operations that were tried, after the set was finished.
	ops      []api.OpResult
	finished time.Time
}

// activate makes a finished set current, has HAProxy load it, and either
// commits it or undoes the switch. From the switch on it no longer depends on
// whoever asked: half an apply is nobody's wish.
func (a *agent) activate(ctx context.Context, act activation, staged *set) (*api.Result, error) {
	ctx = context.WithoutCancel(ctx)
	stagedAt := time.Now()
	p := act.pending
	p.Set = staged.ID
	if err := a.switchForward(ctx, p); err != nil {
		return nil, err
	}
	outcome := a.haproxy.reload(ctx, staged.nonce())
	a.noteReload(outcome)
	report := &api.Reload{
		PreviousPID: outcome.Before.Info.PID, WorkerPID: outcome.After.Info.PID, Log: clip(outcome.Log),
	}
	var result *api.Result
	if outcome.Result == resultLoaded {
		a.commit(staged, &p)
		a.record(ctx, outcome.After, nil)
		result = a.result(staged.PlanID, act.began, api.OutcomeReload)
	} else {
		result = a.rollback(ctx, act, staged, outcome)
	}
	result.Reload, result.OpResults = report, act.ops
	result.Timing.StageMicros = stagedAt.Sub(act.began).Microseconds()
	result.Timing.ReloadMicros = a.lastReload.Sub(stagedAt).Microseconds()
	a.journal.LastApply = result
	a.metrics.applies.WithLabelValues(string(result.Mode)).Inc()
	a.settle(ctx, result)
	return result, nil
}

func (a *agent) noteReload(outcome reloadOutcome) {
	a.lastReload = time.Now()
	a.metrics.reloads.WithLabelValues(string(outcome.Result)).Inc()
}

// settle records the outcome. If that cannot be written now, the pending entry
// on disk leads a restarted agent to the same outcome, and the watch retries.
func (a *agent) settle(ctx context.Context, result *api.Result) {
	logger := klog.FromContext(ctx)
	if err := a.save(); err != nil {
		logger.Error(err, "Could not record the outcome of an apply, will try again")
	} else if err := a.tidy(); err != nil {
		logger.Error(err, "Could not remove superseded sets")
	}
	if result.OK {
		logger.Info("Loaded an output", "plan", result.PlanID, "token", result.AppliedToken, "worker", result.HAProxy.WorkerPID,
			"reloadSeconds", time.Duration(result.Timing.ReloadMicros*1000).Seconds())
		return
	}
	logger.Info("Rejected an output", "plan", result.PlanID, "stage", result.Error.Stage, "worker", result.HAProxy.WorkerPID)
}

// tidy removes what the outcome left over. The links are needed until the
// outcome is recorded.
func (a *agent) tidy() error {
	if a.journal.Pending != nil {
		return a.slots.keep(a.journal)
	}
	return errors.Join(a.slots.keep(a.journal), a.slots.sweepLinks())
}

// switchForward makes the set current on disk.
func (a *agent) switchForward(ctx context.Context, p pending) error {
	if err := a.prepareSwitch(ctx, p); err != nil {
		return err
	}
	return a.switchPrepared()
}

// prepareSwitch records the switch to come. Links for both directions exist
// before anything changes, because a full disk must not block the way back.
func (a *agent) prepareSwitch(ctx context.Context, p pending) error {
	previous, err := os.Readlink(a.layout.current())
	if err != nil {
		return fmt.Errorf("reading the current set: %w", err)
	}
	p.Previous, p.Worker = previous, a.seen.worker()
	if err := a.disk.symlink(previous, a.layout.back()); err != nil {
		return fmt.Errorf("preparing the way back: %w", err)
	}
	if err := a.disk.symlink(currentTarget(p.Set), a.layout.forward()); err != nil {
		return fmt.Errorf("preparing the switch: %w", err)
	}
	a.journal.Pending = &p
	if err := a.save(); err != nil {
		a.journal.Pending = nil
		return err
	}
	if err := a.slots.keep(a.journal); err != nil {
		// What cannot be removed takes up space and harms nothing else.
		klog.FromContext(ctx).Error(err, "Could not remove superseded sets")
	}
	return nil
}

// switchPrepared carries out the switch that was recorded.
func (a *agent) switchPrepared() error {
	if err := a.disk.rename(a.layout.forward(), a.layout.current()); err != nil {
		// The rename may have happened and only its durability failed.
		return errors.Join(fmt.Errorf("switching to the new set: %w", err), a.undo())
	}
	return nil
}

// forgo gives up the recorded switch before it was carried out. Its set remains,
// to be loaded or discarded; the journal is written with what comes of that.
func (a *agent) forgo(id string) {
	a.journal.Pending, a.dirty = nil, true
	a.slots.hold(id)
}

// undo makes the set before the pending one current again. The worker from
// before the switch was loaded from that set; any other has yet to be, see amend.
func (a *agent) undo() error {
	p := a.journal.Pending
	if target, err := os.Readlink(a.layout.current()); err != nil || target != p.Previous {
		if back, err := os.Readlink(a.layout.back()); err != nil || back != p.Previous {
			if err := a.disk.symlink(p.Previous, a.layout.back()); err != nil {
				return fmt.Errorf("preparing the way back: %w", err)
			}
		}
		if err := a.disk.rename(a.layout.back(), a.layout.current()); err != nil {
			return fmt.Errorf("restoring the set before: %w", err)
		}
	}
	a.metrics.rollbacks.Inc()
	a.journal.Pending, a.journal.Undone = nil, &p.Worker
	return a.save()
}

// commit makes a set that a worker proved the pod's own.
func (a *agent) commit(proven *set, p *pending) {
	j := a.journal
	j.Current, j.Pending, j.Undone, j.Disowned = proven.ID, nil, nil, false
	j.Scheduled, a.scheduled = nil, nil // it was this set, or an older one
	j.AppliedToken, j.LastManifest = p.Token, p.Manifest
	j.Generation++
	j.addGood(proven)
	a.current, a.tree = proven, nil
	a.metrics.generation.Set(float64(j.Generation))
}

// rollback restores the set before and says why the new one does not run.
func (a *agent) rollback(ctx context.Context, act activation, staged *set, outcome reloadOutcome) *api.Result {
	detail := &api.ErrorDetail{Stage: api.StageReload}
	switch {
	case outcome.Result == resultUnresolved:
		detail.Stage = api.StageUnresolved
		detail.Message = clip(fmt.Sprintf("no worker was seen to run or refuse the output within %s: %v", a.haproxy.wait, outcome.Problem))
	case outcome.Log != "":
		detail.Message = alerts(outcome.Log)
	default:
		detail.Message = explain(ctx, a.config.HAProxyBinary, checkFlags(a.haproxy.startFlags(ctx)), a.layout, staged.ID)
	}
	a.metrics.rejections.WithLabelValues(detail.Stage).Inc()
	a.journal.Scheduled, a.scheduled = nil, nil // it was this set, or an older one
	if err := a.undo(); err != nil {
		// The pending entry stays, so a restart tries again; until then the
		// link is reported as what it is: not the committed set.
		klog.FromContext(ctx).Error(err, "Could not restore the set before")
		a.tree = a.checkTree()
	}
	seen, err := a.haproxy.observe(ctx)
	a.record(ctx, seen, err)
	a.amend(ctx)
	result := a.result(staged.PlanID, act.began, api.OutcomeRejected)
	result.Rollback, result.Error = true, detail
	return result
}

// revert leaves the named plan for the newest other set that a worker proved.
func (a *agent) revert(ctx context.Context, up *upload, p pending) (*api.Result, error) {
	named := planOf(&up.manifest)
	if s := a.journal.Scheduled; s != nil && s.Plan == named {
		return a.unschedule(ctx, up, p)
	}
	if a.current == nil || a.current.ref() != named {
		return nil, refuse(api.ReasonRevertTargetMismatch, "plan %s is not carried by this pod", named.ID)
	}
	if a.workerStatus() == api.WorkerOwned {
		return nil, refuse(api.ReasonRevertTargetMismatch, "plan %s is run by the worker", named.ID)
	}
	var source string
	for _, good := range a.journal.Good {
		if good.Plan != named {
			source = good.Set
			break
		}
	}
	if source == "" {
		return nil, refuse(api.ReasonRevertTargetMismatch, "there is no other good set to go back to")
	}
	restored, err := loadSet(a.layout, source)
	if err != nil {
		return nil, err
	}
	restored.ID, restored.Nonce, restored.Moved = up.staging.id, "", nil // it is loaded anew
	for _, f := range restored.Files {
		carried, err := up.staging.carry(f, source)
		if err != nil {
			return nil, err
		}
		if !carried {
			return nil, fmt.Errorf("file %q of set %s is not what it was", f.Path, source)
		}
	}
	if err := up.staging.finish(restored); err != nil {
		return nil, err
	}
	return a.activate(ctx, activation{began: up.began, pending: p}, restored)
}
