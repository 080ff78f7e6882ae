package deploy

import (
	"context"
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
	// converged are the sequences that the whole fleet was said to run.
	converged []uint64
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

func (f *fleetOf) Converged(c *Candidate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.converged = append(f.converged, c.Sequence)
}

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
