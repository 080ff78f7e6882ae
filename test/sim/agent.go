package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// agent models the agent of one pod: its fence, its compare-and-swap and what
// its worker runs. HAProxy always loads, unless the schedule says otherwise.
type agent struct {
	name, uid, address string

	// mu is one lock for the whole fleet, so that a checker that sees one pod load
	// may look at the others.
	mu    *sync.Mutex
	state api.State
	fence api.Token
	plan  [2]string // ID and proof that the fence's token named
	// heard is the highest epoch that reached the pod, kept apart from the
	// fence, for the checkers.
	heard  uint64
	starts int64
	// running are the files of the worker.
	running map[string]api.FileState
	// rejects is how many loads will fail.
	rejects     int
	unreachable bool
	// pace is the least time between two reloads; what comes sooner is put off.
	pace     time.Duration
	reloaded time.Time
	// loaded takes what the pod loaded. It is called with the lock held.
	loaded func(load)
}

func newAgent(name, uid, address string, mu *sync.Mutex) *agent {
	a := &agent{name: name, uid: uid, address: address, mu: mu}
	a.state = api.State{
		APIVersion: api.Version, PlanSchemaVersion: api.PlanSchemaVersion, PodName: name, PodUID: uid,
		Phase: api.PhaseBootstrap, WorkerStatus: api.WorkerOwned, Files: map[string]api.FileState{},
	}
	a.restart()
	return a
}

// restart gives the pod a new worker.
func (a *agent) restart() {
	a.starts++
	a.state.HAProxy = api.HAProxy{Version: "3.0", WorkerPID: 100 + a.starts, WorkerStartTimeUnixMicros: 1_000_000 * a.starts}
}

// addressed refuses what is meant for another pod or template.
func (a *agent) addressed(target client.Target) error {
	switch {
	case target.PodUID != a.uid:
		return a.conflict(api.ReasonWrongPod)
	case a.state.TemplateUID != "" && a.state.TemplateUID != target.TemplateUID:
		return a.conflict(api.ReasonWrongTemplate)
	}
	return nil
}

func (a *agent) conflict(reason api.Reason) error {
	return &client.ConflictError{Pod: a.name, Conflict: api.Conflict{
		Reason: reason, Message: "simulated", Plans: a.state.Plans, AppliedToken: a.state.AppliedToken,
		EpochFloor: a.fence.LeaderEpoch, Phase: a.state.Phase, PodUID: a.uid, TemplateUID: a.state.TemplateUID,
	}}
}

func (a *agent) read(verify bool) *api.State {
	state := a.state
	state.Files = maps.Clone(a.state.Files)
	state.Verified, state.EpochFloor = verify, a.fence.LeaderEpoch
	return &state
}

func (a *agent) announce(epoch uint64) (api.Floor, error) {
	if epoch < a.fence.LeaderEpoch {
		return api.Floor{}, a.conflict(api.ReasonStaleEpoch)
	}
	if epoch > a.fence.LeaderEpoch {
		a.fence, a.plan = api.Token{LeaderEpoch: epoch}, [2]string{}
	}
	a.heard = max(a.heard, epoch)
	return api.Floor{Floor: epoch}, nil
}

// admit decides whether an apply may act, as the real agent does.
func (a *agent) admit(m *api.Manifest) error {
	plan := [2]string{m.PlanID, m.PlanProof}
	switch {
	case m.Token.LeaderEpoch < a.fence.LeaderEpoch, m.Token.Before(a.fence):
		return a.conflict(api.ReasonStaleEpoch)
	case m.Token.LeaderEpoch-a.fence.LeaderEpoch > api.MaxEpochJump:
		return a.conflict(api.ReasonEpochJump)
	case m.Token == a.fence && a.plan[0] != "" && a.plan != plan:
		return a.conflict(api.ReasonTokenReused)
	case m.ExpectedPhase != "" && m.ExpectedPhase != a.state.Phase:
		return a.conflict(api.ReasonPhaseMismatch)
	case m.ExpectedPrevPlanID != a.state.AppliedPlanID || m.ExpectedPrevPlanProof != a.state.AppliedPlanProof:
		return a.conflict(api.ReasonPrevMismatch)
	case m.ExpectedPrevToken != a.state.AppliedToken:
		return a.conflict(api.ReasonPrevMismatch)
	}
	return nil
}

// load is what an apply did to a pod.
type load struct {
	pod      string
	token    api.Token
	plan     string
	previous api.Phase
	// heard is the highest epoch that the pod had heard of before.
	heard uint64
}

// apply carries an admitted manifest out, or puts its reload off.
func (a *agent) apply(target client.Target, request client.ApplyRequest) (*api.Result, error) {
	m := &request.Manifest
	if m.Mode == api.ModeRevertLKG {
		return a.revert(m)
	}
	if err := a.admit(m); err != nil {
		return nil, err
	}
	next := load{pod: a.name, token: m.Token, plan: m.PlanID, previous: a.state.Phase, heard: a.heard}
	a.fence, a.plan = m.Token, [2]string{m.PlanID, m.PlanProof}
	a.heard = max(a.heard, m.Token.LeaderEpoch)
	if a.rejects > 0 {
		a.rejects--
		return a.result(m.PlanID, api.OutcomeRejected), nil
	}
	a.state.TemplateUID = target.TemplateUID
	a.state.Phase = api.PhaseConfigured
	a.state.Generation++
	a.state.AppliedPlanID, a.state.AppliedPlanProof = m.PlanID, m.PlanProof
	a.state.AppliedToken, a.state.AppliedPlanStored = m.Token, true
	a.state.Files = map[string]api.FileState{}
	for _, f := range m.Files {
		a.state.Files[f.Path] = f.State()
	}
	if a.state.RunningPlanID == m.PlanID && a.state.RunningPlanProof == m.PlanProof {
		a.state.ReloadPendingAt = nil
		a.loaded(next)
		return a.result(m.PlanID, api.OutcomeNoop), nil
	}
	if wait := time.Until(a.reloaded.Add(a.pace)); wait > 0 {
		return a.putOff(next, m.PlanProof, wait), nil
	}
	a.reload(next, m.PlanProof)
	return a.result(m.PlanID, api.OutcomeReload), nil
}

// putOff schedules a reload for the end of the pace. A newer apply replaces it.
func (a *agent) putOff(next load, proof string, wait time.Duration) *api.Result {
	due := time.Now().Add(wait)
	a.state.ReloadPendingAt = &due
	generation := a.state.Generation
	time.AfterFunc(wait, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.state.Generation == generation && a.state.ReloadPendingAt != nil {
			a.state.ReloadPendingAt = nil
			a.reload(next, proof)
		}
	})
	result := a.result(next.plan, api.OutcomeScheduled)
	result.ReloadPendingAt = &due
	return result
}

func (a *agent) reload(next load, proof string) {
	a.restart()
	a.reloaded, a.running = time.Now(), a.state.Files
	a.state.ReloadPendingAt = nil
	a.state.RunningPlanID, a.state.RunningPlanProof = next.plan, proof
	a.state.LKGPlanID, a.state.LKGPlanProof = next.plan, proof
	a.loaded(next)
}

func (a *agent) result(plan string, mode api.Outcome) *api.Result {
	r := &api.Result{
		PlanID: plan, OK: mode != api.OutcomeRejected, Mode: mode, Plans: a.state.Plans,
		AppliedToken: a.state.AppliedToken, HAProxy: a.state.HAProxy,
	}
	if !r.OK {
		r.Error = &api.ErrorDetail{Stage: api.StageReload, Message: "simulated refusal"}
	}
	return r
}

// agents is one process's way to the agents of the fleet.
type agents struct {
	*world
	process string
}

// Close ends nothing: the network is the world's.
func (a *agents) Close() {}

// call takes a request to an agent and its answer back.
func (a *agents) call(ctx context.Context, what string, target client.Target, do func(*agent)) (answered bool, err error) {
	key := fmt.Sprintf("%s agent %s %s", a.process, what, target.PodName)
	fate := a.network.park(ctx, &item{key: key, process: a.process, class: classAgent, target: what})
	if fate == fateDrop || fate == fateSkip {
		return false, errNetwork
	}
	found := a.agentAt(target.Address)
	if found == nil {
		return false, errNetwork
	}
	found.mu.Lock()
	if found.unreachable {
		found.mu.Unlock()
		return false, errNetwork
	}
	do(found)
	found.mu.Unlock()
	if fate == fateHoldReply {
		fate = a.network.park(ctx, &item{key: key + " reply", process: a.process, class: classAgentReply, target: what})
	}
	if fate != fateDeliver || a.network.isDead(a.process) {
		return false, &client.UnansweredError{Pod: target.PodName, Err: errNetwork}
	}
	return true, nil
}

func (a *agents) State(ctx context.Context, target client.Target, opts client.StateOptions) (state *api.State, err error) {
	var refusal error
	answered, err := a.call(ctx, "state", target, func(at *agent) {
		if refusal = at.addressed(target); refusal == nil {
			state = at.read(opts.Verify)
		}
	})
	switch {
	case !answered:
		return nil, err
	case refusal != nil:
		return nil, refusal
	}
	return state, nil
}

func (a *agents) Announce(ctx context.Context, target client.Target, epoch uint64) (floor api.Floor, err error) {
	var refusal error
	answered, err := a.call(ctx, fmt.Sprintf("announce %d", epoch), target, func(at *agent) {
		if refusal = at.addressed(target); refusal == nil {
			floor, refusal = at.announce(epoch)
		}
	})
	if !answered {
		return api.Floor{}, err
	}
	return floor, refusal
}

func (a *agents) Apply(ctx context.Context, target client.Target, request client.ApplyRequest) (result *api.Result, err error) {
	var refusal error
	what := fmt.Sprintf("apply %d/%d %s", request.Manifest.Token.LeaderEpoch, request.Manifest.Token.RenderSeq, request.Manifest.PlanID)
	answered, err := a.call(ctx, what, target, func(at *agent) {
		if refusal = at.addressed(target); refusal != nil {
			return
		}
		a.begun(a.process, at.name, &request.Manifest)
		result, refusal = at.apply(target, request)
		var conflict *client.ConflictError
		if errors.As(refusal, &conflict) && conflict.Conflict.Reason == api.ReasonStaleEpoch {
			a.outranked(a.process, &request.Manifest)
		}
	})
	switch {
	case !answered:
		return nil, err
	case refusal != nil:
		return nil, refusal
	}
	if result.OK && result.Mode != api.OutcomeScheduled && request.Manifest.Mode != api.ModeRevertLKG {
		a.acknowledged(a.process, &request.Manifest)
	}
	return result, nil
}
