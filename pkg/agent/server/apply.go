package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// upload is an apply whose body was read: every part it carried was checked
// against the manifest and waits in a staging folder.
type upload struct {
	manifest    api.Manifest
	templateUID string
	plan        []byte // nil when no plan part came
	patches     map[string]*patch
	staging     *staging
	began       time.Time
}

// identity tells a repeat of this manifest from another one.
func (u *upload) identity() (string, error) {
	canonical, err := json.Marshal(u.manifest)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// missingError lists the files that have to be sent.
type missingError struct{ paths []string }

func (e *missingError) Error() string { return fmt.Sprintf("%d files are missing", len(e.paths)) }

// requestError says that a request breaks the contract in one of its stages.
type requestError struct {
	stage string
	err   error
}

func (e *requestError) Error() string { return fmt.Sprintf("%s: %v", e.stage, e.err) }
func (e *requestError) Unwrap() error { return e.err }

// apply decides and carries out one upload. The staging folder is gone or
// committed when it returns.
func (a *agent) apply(ctx context.Context, up *upload) (*api.Result, error) {
	if err := a.acquire(ctx); err != nil {
		return nil, errors.Join(err, up.staging.discard())
	}
	defer a.release()
	defer a.publish()
	result, err := a.applyLocked(ctx, up)
	if err == nil {
		return result, nil
	}
	if a.dirty {
		// What was refused was heard of all the same, before it is answered.
		if unsaved := a.save(); unsaved != nil {
			err = unsaved
		}
	}
	return nil, errors.Join(err, up.staging.discard())
}

func (a *agent) applyLocked(ctx context.Context, up *upload) (*api.Result, error) {
	identity, err := up.identity()
	if err != nil {
		return nil, err
	}
	seen, seenErr := a.haproxy.observe(ctx)
	a.record(ctx, seen, seenErr)
	a.amend(ctx)
	m := &up.manifest
	actual := address{podUID: a.config.PodUID, templateUID: a.journal.TemplateUID}
	if c := checkAddress(address{podUID: actual.podUID, templateUID: up.templateUID}, actual); c != nil {
		return nil, c
	}
	if c := checkFence(a.journal, m); c != nil {
		return nil, c
	}
	if a.isRepeat(m, identity) {
		return a.journal.LastApply, up.staging.discard()
	}
	changed := raiseFence(a.journal, m)
	baseline := checkBaseline(a.standing(), m)
	if baseline == nil && a.journal.TemplateUID == "" {
		a.journal.TemplateUID, changed = up.templateUID, true
	}
	a.dirty = a.dirty || changed // the outcome is written with it
	if baseline != nil {
		a.dropOutranked(ctx)
		return nil, baseline
	}
	p := pending{Token: m.Token, Manifest: identity}
	if m.Mode == api.ModeRevertLKG {
		return a.revert(ctx, up, p)
	}
	return a.deliver(ctx, up, p)
}

// isRepeat reports that this very manifest was the last one to succeed, and that
// this still holds. Its answer may have been lost on the way back.
func (a *agent) isRepeat(m *api.Manifest, identity string) bool {
	j := a.journal
	if j.LastApply == nil || !j.LastApply.OK {
		return false
	}
	if s := j.Scheduled; s != nil {
		return s.Manifest == identity && s.Token == m.Token
	}
	return j.LastManifest == identity && j.AppliedToken == m.Token &&
		a.workerStatus() == api.WorkerOwned && a.phase() == api.PhaseConfigured
}

// deliver brings the uploaded output to the worker.
func (a *agent) deliver(ctx context.Context, up *upload, p pending) (*api.Result, error) {
	m := &up.manifest
	if a.scheduled != nil && a.applied() == planOf(m) && a.scheduled.sameFiles(m.Files) {
		return a.retake(ctx, up, p)
	}
	// Only what may save the reload is worth asking the worker again.
	same := m.Mode == api.ModeAuto && a.committed() == planOf(m) && a.current.sameFiles(m.Files)
	inPlace := m.Mode == api.ModeAuto && !same && a.needsNoWorker(m.Files)
	settled := (same || inPlace) && a.isSettled(ctx)
	if same && settled {
		if err := up.staging.discard(); err != nil {
			klog.FromContext(ctx).Error(err, "Could not remove an upload that was not needed")
		}
		return a.noop(ctx, up, p)
	}
	inPlace = inPlace && settled
	var found *ahead
	moving := !inPlace && a.movable(m)
	if moving {
		found = a.lookAhead(ctx)
		defer found.close()
	}
	plan, err := a.planFor(up)
	if err != nil {
		return nil, err
	}
	if err := a.complete(up); err != nil {
		return nil, err
	}
	staged := &set{ID: up.staging.id, PlanID: m.PlanID, PlanProof: m.PlanProof, PlanSchemaVersion: m.PlanSchemaVersion, Files: m.Files, plan: plan}
	switch {
	case inPlace:
		staged.inherit(a.current, a.seen)
	case moving:
		staged.move(a.current, a.seen, a.loadedPlan())
		found.follow(staged, m.Ops)
	}
	if err := up.staging.finish(staged); err != nil {
		return nil, err
	}
	act := activation{began: up.began, pending: p}
	if inPlace {
		return a.exchange(ctx, act, staged, api.OutcomeFileOnly)
	}
	if moving {
		result, tried, err := a.operate(ctx, act, staged, move{ops: m.Ops, ahead: found})
		if result != nil || err != nil {
			return result, err
		}
		if err := a.renounce(staged); err != nil {
			return nil, err
		}
		act.ops = tried
	}
	if a.dueAt().After(time.Now()) || !a.hasRoom(ctx, a.seen) {
		return a.postpone(ctx, act, staged)
	}
	return a.activate(ctx, act, staged)
}

// sources are the sets whose files the next one may share, newest first.
func (a *agent) sources() []string {
	if a.journal.Scheduled != nil {
		return []string{a.journal.Scheduled.Set, a.journal.Current}
	}
	return []string{a.journal.Current}
}

// isSettled reports that the pod is known to be exactly its committed output, on
// disk and in its worker.
func (a *agent) isSettled(ctx context.Context) bool {
	return a.scheduled == nil && a.phase() == api.PhaseConfigured && a.workerStatus() == api.WorkerOwned &&
		a.checkTree() == nil && a.compareNow(ctx) == nil && a.drift == nil
}

// planFor is the plan blob of the manifest: sent with it, or stored already.
func (a *agent) planFor(up *upload) ([]byte, error) {
	if up.plan != nil {
		return up.plan, nil
	}
	for _, held := range []*set{a.scheduled, a.current} {
		if held != nil && held.ref() == planOf(&up.manifest) && len(held.plan) > 0 {
			return held.plan, nil
		}
	}
	return nil, &requestError{stage: api.StageParts, err: errors.New("the plan part is missing and its plan is not stored here")}
}

// complete carries over the files that were not sent, or not whole. If one cannot
// be, the answer lists everything the committed set does not hold, sent or not:
// what was sent is dropped, so that the next request alone makes the set.
func (a *agent) complete(up *upload) error {
	complete := true
	for _, f := range up.manifest.Files {
		if up.staging.have[f.Path] {
			continue
		}
		for _, source := range a.sources() {
			taken, err := up.take(f, source)
			if err != nil {
				return err
			}
			if taken {
				break
			}
		}
		complete = complete && up.staging.have[f.Path]
	}
	if complete {
		return nil
	}
	missing := &missingError{}
	for _, f := range up.manifest.Files {
		if !slices.ContainsFunc(a.sources(), func(id string) bool { return holds(a.layout, id, f) }) {
			missing.paths = append(missing.paths, f.Path)
		}
	}
	slices.Sort(missing.paths)
	return missing
}

// noop advances the token of an output that is there and runs.
func (a *agent) noop(ctx context.Context, up *upload, p pending) (*api.Result, error) {
	a.journal.AppliedToken, a.journal.LastManifest = p.Token, p.Manifest
	a.journal.Generation++
	result := a.result(up.manifest.PlanID, up.began, api.OutcomeNoop)
	a.journal.LastApply = result
	a.metrics.applies.WithLabelValues(string(api.OutcomeNoop)).Inc()
	a.metrics.generation.Set(float64(a.journal.Generation))
	klog.FromContext(ctx).V(2).Info("Found the output in place", "plan", up.manifest.PlanID, "token", p.Token)
	return result, a.save()
}

// result describes the pod as it is now.
func (a *agent) result(planID string, began time.Time, mode api.Outcome) *api.Result {
	return &api.Result{
		PlanID: planID, OK: mode != api.OutcomeRejected, Mode: mode,
		Plans: a.plans(), AppliedToken: a.journal.token(), HAProxy: a.identity(),
		At:     time.Now().UTC(),
		Timing: api.Timing{TotalMicros: time.Since(began).Microseconds()},
	}
}

// announce raises the floor. It waits for an apply that is under way, so that
// after the answer nothing of an earlier term is loaded any more.
func (a *agent) announce(ctx context.Context, epoch uint64) (api.Floor, error) {
	if err := a.acquire(ctx); err != nil {
		return api.Floor{}, err
	}
	defer a.release()
	if c := checkEpoch(a.journal, epoch); c != nil {
		return api.Floor{}, c
	}
	if epoch > a.journal.Fence.LeaderEpoch {
		a.journal.Fence, a.journal.FencePlan = api.Token{LeaderEpoch: epoch}, planRef{}
		a.dropOutranked(ctx)
		if err := a.save(); err != nil {
			return api.Floor{}, err
		}
		a.publish()
		klog.FromContext(ctx).V(2).Info("Raised the floor", "epoch", epoch)
	}
	if a.dirty {
		// A floor that is only in memory would be forgotten by a restart.
		if err := a.save(); err != nil {
			return api.Floor{}, err
		}
	}
	return api.Floor{Floor: a.journal.Fence.LeaderEpoch}, nil
}
