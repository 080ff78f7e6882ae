package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
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
	// before runs ahead of an apply's checks, once.
	before func(*agent)
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
	if before := a.before; before != nil {
		a.before = nil
		before(a)
	}
	switch {
	case m.Token.Before(a.fence):
		return nil, a.conflict(api.ReasonStaleEpoch)
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

// fleetOf is fleet, agents, term and sink of one test.
type fleetOf struct {
	mu       sync.Mutex
	agents   map[string]*agent // by address
	epoch    uint64
	record   error
	recorded []string
	reclaims []uint64
	reports  []Report
	living   [][]Pod
	// order is what happened, in order.
	order []string
}

func newFleet(names ...string) *fleetOf {
	f := &fleetOf{agents: map[string]*agent{}, epoch: 7}
	for i, name := range names {
		f.add(Pod{Name: name, UID: name + "-uid", Address: fmt.Sprintf("10.244.0.%d:9444", i+1)})
	}
	return f
}

func (f *fleetOf) add(pod Pod) *agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := newAgent(pod)
	f.agents[pod.Address] = a
	return a
}

func (f *fleetOf) agent(name string) *agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.agents {
		if a.pod.Name == name {
			return a
		}
	}
	return nil
}

func (f *fleetOf) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = append(f.order, fmt.Sprintf(format, args...))
}

func (f *fleetOf) Pods() []Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Pod
	for a := range maps.Values(f.agents) {
		out = append(out, a.pod)
	}
	return out
}

func (f *fleetOf) at(target client.Target) *agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agents[target.Address]
}

func (f *fleetOf) State(_ context.Context, target client.Target, opts client.StateOptions) (*api.State, error) {
	a := f.at(target)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.check(target); err != nil {
		return nil, err
	}
	state := a.state
	state.Verified, state.EpochFloor = opts.Verify, a.fence.LeaderEpoch
	return &state, nil
}

func (f *fleetOf) Apply(ctx context.Context, target client.Target, request client.ApplyRequest) (*api.Result, error) {
	a := f.at(target)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.check(target); err != nil {
		return nil, err
	}
	f.note("apply %s %s", target.PodName, request.Manifest.PlanID)
	select {
	case <-time.After(a.delay):
	case <-ctx.Done():
		return nil, &client.UnansweredError{Pod: target.PodName, Err: ctx.Err()}
	}
	return a.apply(request)
}

func (f *fleetOf) Announce(_ context.Context, target client.Target, epoch uint64) (api.Floor, error) {
	a := f.at(target)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.check(target); err != nil {
		return api.Floor{}, err
	}
	if epoch < a.fence.LeaderEpoch {
		return api.Floor{}, a.conflict(api.ReasonStaleEpoch)
	}
	f.note("announce %s %d", target.PodName, epoch)
	a.announce = append(a.announce, epoch)
	if epoch > a.fence.LeaderEpoch {
		a.fence = api.Token{LeaderEpoch: epoch}
	}
	return api.Floor{Floor: epoch}, nil
}

func (f *fleetOf) Epoch() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch
}

func (f *fleetOf) Record(_ context.Context, planID, _ string) error {
	f.note("record %s", planID)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.record != nil {
		return f.record
	}
	f.recorded = append(f.recorded, planID)
	return nil
}

func (f *fleetOf) Reclaim(_ context.Context, floor uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaims = append(f.reclaims, floor)
	f.epoch = floor + 1
	return nil
}

func (f *fleetOf) Deployed(report Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, report)
}

func (f *fleetOf) Living(pods []Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.living = append(f.living, pods)
}

func (f *fleetOf) Recorded(*Candidate, error) {}

// candidate makes an output whose bytes differ by its text.
func candidate(t *testing.T, sequence uint64, text string) *Candidate {
	t.Helper()
	mapContent := []byte("a b\n")
	output := &checkpoint.Output{
		ConfigurationPath: "haproxy.cfg", Configuration: []byte(text),
		Artifacts: []checkpoint.Artifact{{
			Descriptor: checkpoint.Descriptor{Family: checkpoint.Map, Name: "maps/a.map", Path: "maps/a.map", RuntimePath: "maps/a.map"},
			Content:    mapContent,
		}},
		Plan: &plan.Plan{SchemaVersion: plan.SchemaVersion, Files: []plan.File{
			{Path: "haproxy.cfg", Kind: plan.FileConfig, Digest: plan.DigestString(text), Size: int64(len(text))},
			{Path: "maps/a.map", Kind: plan.FileMap, Digest: plan.Digest(mapContent), Size: int64(len(mapContent))},
		}},
	}
	id, err := output.Plan.ComputeID()
	if err != nil {
		t.Fatal(err)
	}
	output.Plan.ID = id
	c, err := Prepare(output, sequence, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fleetOf) intents() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.recorded)
}

func (f *fleetOf) lastReport() Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reports[len(f.reports)-1]
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
