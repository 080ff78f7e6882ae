package deploy

import (
	"errors"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

const templateUID = "template-uid"

// agent is one pod's agent as far as the contract goes: it checks address,
// epoch, token and baseline like the real one, before it does anything.
type agent struct {
	pod Pod

	mu       sync.Mutex
	state    api.State
	contents map[string][]byte
	fence    api.Token
	applies  int
	announce []uint64
	// delay is how long an apply takes.
	delay time.Duration
	// down makes every call fail, reject makes HAProxy refuse, mute carries an
	// apply out and loses the answer once.
	down   error
	reject string
	mute   bool
	// schedule puts each load off by that much; refuseLater makes HAProxy refuse
	// when it comes to it.
	schedule    time.Duration
	refuseLater string
	// before runs ahead of an apply's checks, once.
	before func(*agent)
	// inPlace are the applies that came with operations; an agent that announces
	// the feature carries them out, unless it has to reload all the same.
	inPlace []api.Manifest
	reloads bool
	// reverts are the reverts that were carried out; loaded are the files of the
	// worker.
	reverts []api.Manifest
	loaded  map[string]api.FileState
}

func newAgent(pod Pod) *agent {
	return &agent{pod: pod, state: api.State{
		APIVersion: api.Version, PodUID: pod.UID, Phase: api.PhaseBootstrap, WorkerStatus: api.WorkerOwned,
		HAProxy: api.HAProxy{WorkerPID: 10, WorkerStartTimeUnixMicros: 1000},
	}, contents: map[string][]byte{}}
}

func (a *agent) conflict(reason api.Reason) error {
	return &client.ConflictError{Pod: a.pod.Name, Conflict: api.Conflict{
		Reason: reason, Plans: a.state.Plans, AppliedToken: a.state.AppliedToken, EpochFloor: a.fence.LeaderEpoch, Phase: a.state.Phase,
	}}
}

func (a *agent) check(target client.Target) error {
	switch {
	case a.down != nil:
		return a.down
	case target.PodUID != a.pod.UID:
		return a.conflict(api.ReasonWrongPod)
	case target.TemplateUID != templateUID:
		return a.conflict(api.ReasonWrongTemplate)
	}
	return nil
}

func (a *agent) apply(request client.ApplyRequest) (*api.Result, error) {
	m := request.Manifest
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if request.Before == nil && m.Mode != api.ModeRevertLKG {
		return nil, errors.New("a lost answer could not be told from what was there before")
	}
	if before := a.before; before != nil {
		a.before = nil
		before(a)
	}
	switch {
	case m.Token.Before(a.fence):
		return nil, a.conflict(api.ReasonStaleEpoch)
	case m.Mode == api.ModeRevertLKG:
		return a.revert(m)
	case m.ExpectedPrevPlanID != a.state.AppliedPlanID || m.ExpectedPrevPlanProof != a.state.AppliedPlanProof,
		m.ExpectedPrevToken != a.state.AppliedToken:
		return nil, a.conflict(api.ReasonPrevMismatch)
	}
	a.fence = m.Token
	a.applies++
	if a.reject != "" {
		return &api.Result{
			PlanID: m.PlanID, Mode: api.OutcomeRejected, Plans: a.state.Plans, HAProxy: a.state.HAProxy,
			Error: &api.ErrorDetail{Stage: api.StageReload, Message: a.reject},
		}, nil
	}
	files := map[string]api.FileState{}
	for _, f := range m.Files {
		content, sent := request.Parts[f.Path]
		if held, ok := request.Held[f.Path]; ok && held == f.State() {
			content, sent = a.contents[f.Path], true
		}
		if declared := api.Declare(api.FileSpec{Path: f.Path}, content); !sent || declared.State() != f.State() {
			return nil, &client.MissingError{Pod: a.pod.Name, Paths: []string{f.Path}}
		}
		files[f.Path], a.contents[f.Path] = f.State(), content
	}
	if api.PlanProof(request.Plan) != m.PlanProof {
		return nil, &client.RefusedError{Pod: a.pod.Name, Status: 400}
	}
	a.state.Phase, a.state.Files, a.state.AppliedToken = api.PhaseConfigured, files, m.Token
	if a.schedule > 0 {
		return a.putOff(m), nil
	}
	if m.InPlaceOps {
		a.inPlace = append(a.inPlace, m)
		if !a.reloads {
			a.state.AppliedPlanID, a.state.AppliedPlanProof, a.state.WorkerOpsPlanID, a.state.WorkerOpsPlanProof = m.PlanID, m.PlanProof, m.PlanID, m.PlanProof
			return &api.Result{PlanID: m.PlanID, OK: true, Mode: api.OutcomeRuntime, Plans: a.state.Plans, AppliedToken: m.Token, HAProxy: a.state.HAProxy}, nil
		}
	}
	a.loaded = files
	a.state.AppliedPlan, a.state.AppliedPlanStored = request.Plan, true
	a.state.Plans = api.Plans{
		AppliedPlanID: m.PlanID, AppliedPlanProof: m.PlanProof, RunningPlanID: m.PlanID, RunningPlanProof: m.PlanProof,
		LKGPlanID: m.PlanID, LKGPlanProof: m.PlanProof,
	}
	a.state.HAProxy.WorkerPID++
	a.state.HAProxy.WorkerStartTimeUnixMicros += 1000
	if a.mute {
		a.mute = false
		return nil, &client.UnansweredError{Pod: a.pod.Name, Err: errors.New("connection reset")}
	}
	return &api.Result{PlanID: m.PlanID, OK: true, Mode: api.OutcomeReload, Plans: a.state.Plans, AppliedToken: m.Token, HAProxy: a.state.HAProxy}, nil
}

// revert leaves what no worker loaded for what one runs.
func (a *agent) revert(m api.Manifest) (*api.Result, error) {
	s := &a.state
	if s.AppliedPlanID != m.PlanID || s.AppliedPlanProof != m.PlanProof || s.ReloadPendingAt == nil && s.WorkerStatus == api.WorkerOwned {
		return nil, a.conflict(api.ReasonRevertTargetMismatch)
	}
	a.fence = m.Token
	a.reverts = append(a.reverts, m)
	s.ReloadPendingAt, s.WorkerStatus = nil, api.WorkerOwned
	s.AppliedPlanID, s.AppliedPlanProof, s.Files = s.RunningPlanID, s.RunningPlanProof, a.loaded
	if s.AppliedPlanID != "" {
		s.AppliedToken = m.Token
	} else {
		s.Phase, s.AppliedToken, s.AppliedPlanStored = api.PhaseBootstrap, api.Token{}, false
	}
	return &api.Result{PlanID: m.PlanID, OK: true, Mode: api.OutcomeFileOnly, Rollback: true, Plans: s.Plans, HAProxy: s.HAProxy}, nil
}

func (a *agent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.applies
}

func (a *agent) token() api.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fence
}

func (a *agent) plan() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.AppliedPlanID
}

// putOff takes the output and loads it later, as an agent does that paces its
// reloads.
func (a *agent) putOff(m api.Manifest) *api.Result {
	at := time.Now().Add(a.schedule)
	a.state.AppliedPlanID, a.state.AppliedPlanProof, a.state.ReloadPendingAt = m.PlanID, m.PlanProof, &at
	refuse := a.refuseLater
	time.AfterFunc(a.schedule, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.state.ReloadPendingAt != &at {
			return // called off
		}
		a.state.ReloadPendingAt = nil
		a.loaded = a.state.Files
		if refuse != "" {
			a.state.AppliedPlanID, a.state.AppliedPlanProof = a.state.RunningPlanID, a.state.RunningPlanProof
			a.state.LastApply = &api.Result{PlanID: m.PlanID, Error: &api.ErrorDetail{Stage: api.StageReload, Message: refuse}}
			return
		}
		a.state.RunningPlanID, a.state.RunningPlanProof = m.PlanID, m.PlanProof
		a.state.HAProxy.WorkerPID++
		a.state.LastApply = &api.Result{
			PlanID: m.PlanID, OK: true, Mode: api.OutcomeReload, AppliedToken: m.Token, HAProxy: a.state.HAProxy,
		}
	})
	return &api.Result{
		PlanID: m.PlanID, OK: true, Mode: api.OutcomeScheduled, Plans: a.state.Plans, ReloadPendingAt: &at,
		AppliedToken: m.Token, HAProxy: a.state.HAProxy,
	}
}
