package controller

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

// proxyPod is the agent of one pod as far as the contract goes: it checks the
// target, the token, the phase and the baseline before it does anything.
type proxyPod struct {
	name, uid string
	// delay is how long an apply takes.
	delay time.Duration

	mu    sync.Mutex
	state api.State
	floor uint64
	// loads are the tokens of the outputs it loaded, with their plans.
	loads []string
}

func newProxyPod(name, uid string) *proxyPod {
	return &proxyPod{name: name, uid: uid, state: api.State{
		APIVersion: api.Version, PlanSchemaVersion: api.PlanSchemaVersion, PodName: name, PodUID: uid,
		Phase: api.PhaseBootstrap, WorkerStatus: api.WorkerOwned, Files: map[string]api.FileState{},
		HAProxy: api.HAProxy{Version: "3.0", WorkerPID: 10, WorkerStartTimeUnixMicros: 1000},
	}}
}

func (p *proxyPod) conflict(reason api.Reason) error {
	return &client.ConflictError{Pod: p.name, Conflict: api.Conflict{
		Reason: reason, Plans: p.state.Plans, AppliedToken: p.state.AppliedToken, EpochFloor: p.floor, Phase: p.state.Phase,
	}}
}

func (p *proxyPod) addressed(target client.Target) error {
	switch {
	case target.PodUID != p.uid:
		return p.conflict(api.ReasonWrongPod)
	case p.state.TemplateUID != "" && p.state.TemplateUID != target.TemplateUID:
		return p.conflict(api.ReasonWrongTemplate)
	}
	return nil
}

// apply is carried out at the end of its delay, unless it was broken off.
func (p *proxyPod) apply(ctx context.Context, target client.Target, m *api.Manifest) (*api.Result, error) {
	select {
	case <-ctx.Done():
		return nil, &client.UnansweredError{Pod: p.name, Err: ctx.Err()}
	case <-time.After(p.delay):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.addressed(target); err != nil {
		return nil, err
	}
	switch {
	case m.Token.LeaderEpoch < p.floor, m.Token.Before(p.state.AppliedToken):
		return nil, p.conflict(api.ReasonStaleEpoch)
	case m.ExpectedPhase != "" && m.ExpectedPhase != p.state.Phase:
		return nil, p.conflict(api.ReasonPhaseMismatch)
	case m.ExpectedPrevPlanID != p.state.AppliedPlanID, m.ExpectedPrevToken != p.state.AppliedToken:
		return nil, p.conflict(api.ReasonPrevMismatch)
	}
	p.floor = m.Token.LeaderEpoch
	p.state.TemplateUID, p.state.Phase, p.state.AppliedToken = target.TemplateUID, api.PhaseConfigured, m.Token
	p.state.Plans = api.Plans{
		AppliedPlanID: m.PlanID, AppliedPlanProof: m.PlanProof, RunningPlanID: m.PlanID, RunningPlanProof: m.PlanProof,
	}
	p.state.Files = map[string]api.FileState{}
	for _, f := range m.Files {
		p.state.Files[f.Path] = f.State()
	}
	p.state.AppliedPlanStored = true
	p.state.HAProxy.WorkerPID++
	p.state.HAProxy.WorkerStartTimeUnixMicros += 1000
	kind := "rendered"
	if m.Token.RenderSeq == 0 {
		kind = "recovered"
	}
	p.loads = append(p.loads, kind+" "+m.PlanID)
	return &api.Result{
		PlanID: m.PlanID, OK: true, Mode: api.OutcomeReload, Plans: p.state.Plans, AppliedToken: m.Token, HAProxy: p.state.HAProxy,
	}, nil
}

// loaded is what the pod loaded, oldest first.
func (p *proxyPod) loaded() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.loads...)
}

var errNoPod = errors.New("connection refused")

// proxyPods are the agents of the fleet, by address.
type proxyPods struct {
	mu  sync.Mutex
	all map[string]*proxyPod
}

func (a *proxyPods) at(target client.Target) (*proxyPod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p, ok := a.all[target.Address]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("pod %s: %w", target.PodName, errNoPod)
}

func (a *proxyPods) State(_ context.Context, target client.Target, opts client.StateOptions) (*api.State, error) {
	p, err := a.at(target)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.addressed(target); err != nil {
		return nil, err
	}
	state := p.state
	state.Files = maps.Clone(state.Files)
	state.Verified, state.EpochFloor = opts.Verify, p.floor
	return &state, nil
}

func (a *proxyPods) Announce(_ context.Context, target client.Target, epoch uint64) (api.Floor, error) {
	p, err := a.at(target)
	if err != nil {
		return api.Floor{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.addressed(target); err != nil {
		return api.Floor{}, err
	}
	if epoch < p.floor {
		return api.Floor{}, p.conflict(api.ReasonStaleEpoch)
	}
	p.floor = epoch
	return api.Floor{Floor: epoch}, nil
}

func (a *proxyPods) Apply(ctx context.Context, target client.Target, request client.ApplyRequest) (*api.Result, error) {
	p, err := a.at(target)
	if err != nil {
		return nil, err
	}
	return p.apply(ctx, target, &request.Manifest)
}

// Close ends nothing: the fleet is the test's.
func (a *proxyPods) Close() {}
