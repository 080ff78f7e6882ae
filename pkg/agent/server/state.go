package server

import (
	"context"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// snapshot is the published state with the plan kept apart from it, so that an
// answer without the plan need not copy it. Nothing in it is changed any more.
type snapshot struct {
	state   api.State
	plan    []byte
	journal journal
}

// answer is the state as one caller wants it.
func (s *snapshot) answer(withPlan, verified bool) *api.State {
	state := s.state
	state.Verified = verified
	if withPlan {
		state.AppliedPlan = s.plan
	}
	return &state
}

// publish makes the present state readable without the lock.
func (a *agent) publish() {
	j := a.journal
	next := &snapshot{journal: *j, state: api.State{
		APIVersion: api.Version, AgentVersion: a.config.Version, PlanSchemaVersion: api.PlanSchemaVersion,
		AgentOps: a.agentOps(), Features: []string{api.FeatureInPlaceOps, api.FeatureFilePatch},
		PodName: a.config.PodName, PodUID: a.config.PodUID, TemplateUID: j.TemplateUID,
		Phase: a.phase(), WorkerStatus: a.workerStatus(), HAProxy: a.identity(), Generation: j.Generation,
		SupervisorStatus: a.seen.Supervisor, StartFlags: a.flags,
		Plans: a.plans(), AppliedToken: j.token(), EpochFloor: j.Fence.LeaderEpoch,
		Files: map[string]api.FileState{}, LastApply: j.LastApply, InvariantViolation: a.violation(),
	}}
	// What the files are is worth knowing even when whose they are is not: it
	// saves sending them again, and each is hashed before it is carried over.
	held := a.current
	if j.Scheduled != nil {
		held = a.scheduled
		next.state.ReloadPendingAt = &j.Scheduled.Due
	}
	if held != nil && held.isOutput() {
		for _, f := range held.Files {
			next.state.Files[f.Path] = f.State()
		}
	}
	if next.state.AppliedPlanID != "" {
		next.plan = held.plan
		next.state.AppliedPlanStored = len(held.plan) > 0
	}
	if a.seen.MasterPID != 0 {
		next.state.OldWorkers = &api.OldWorkers{Count: len(a.seen.Old), Limit: a.config.MaxOldWorkers}
	}
	a.published.Store(next)
}

// identity is the running binary and its worker, empty unless both are known.
func (a *agent) identity() api.HAProxy {
	if a.workerStatus() == api.WorkerAbsent {
		return api.HAProxy{}
	}
	return api.HAProxy{
		Version:                   shortVersion(a.seen.Info.FullVersion),
		FullVersion:               a.seen.Info.FullVersion,
		WorkerPID:                 a.seen.Info.PID,
		WorkerStartTimeUnixMicros: a.seen.Info.StartTime * 1_000_000,
	}
}

func (a *agent) plans() api.Plans {
	var plans api.Plans
	applied := a.applied()
	plans.AppliedPlanID, plans.AppliedPlanProof = applied.ID, applied.Proof
	if a.workerStatus() == api.WorkerOwned {
		running, committed := a.loadedPlan(), a.committed()
		plans.RunningPlanID, plans.RunningPlanProof = running.ID, running.Proof
		if running != committed {
			plans.WorkerOpsPlanID, plans.WorkerOpsPlanProof = committed.ID, committed.Proof
		}
	}
	if good := a.journal.Good; len(good) > 0 {
		plans.LKGPlanID, plans.LKGPlanProof = good[0].Plan.ID, good[0].Plan.Proof
	}
	return plans
}

func (a *agent) violation() string {
	switch {
	case a.tree != nil:
		return violationTree
	case a.workerStatus() == api.WorkerForeign:
		return violationForeignWorker
	case a.drift != nil && a.workerStatus() == api.WorkerOwned:
		return a.drift.invariant
	}
	return ""
}

// state answers from the snapshot, or after looking at files and worker. A
// verified read waits for an apply that is under way: in the middle of one, the
// new worker would look like somebody else's.
func (a *agent) state(ctx context.Context, verify, withPlan bool) (*api.State, error) {
	if !verify {
		return a.published.Load().answer(withPlan, false), nil
	}
	if err := a.acquire(ctx); err != nil {
		return nil, err
	}
	defer a.release()
	if err := a.verify(ctx); err != nil {
		return nil, err
	}
	seen, err := a.haproxy.observeBoth(ctx)
	if ctx.Err() != nil {
		// Whoever asked is gone; that says nothing about the worker.
		return nil, context.Cause(ctx)
	}
	a.record(ctx, seen, err)
	a.amend(ctx)
	if err := a.compareNow(ctx); err != nil {
		return nil, err
	}
	a.publish()
	return a.published.Load().answer(withPlan, true), nil
}

// conflictBody fills a refusal with where the pod is.
func (a *agent) conflictBody(c *conflict) api.Conflict {
	at := a.published.Load().state
	return api.Conflict{
		Reason: c.reason, Message: c.message,
		Plans: at.Plans, AppliedToken: at.AppliedToken, EpochFloor: at.EpochFloor, Phase: at.Phase,
		PodUID: at.PodUID, TemplateUID: at.TemplateUID,
	}
}
