package server

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// TestKilledMasterIsAdopted: kill -9 of the master alone, with the agent
// untouched. HAProxy's container comes back from disk with the same set.
func TestKilledMasterIsAdopted(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one").with("a.map", "a b\n"))
	before := p.state(true)
	must(t, p.haproxy.Process.Kill())
	_ = p.haproxy.Wait()
	p.haproxy = nil
	// A container's other processes end with its first one.
	_ = syscall.Kill(int(before.HAProxy.WorkerPID), syscall.SIGKILL)
	eventually(t, "notice of the loss", func() bool { return p.state(false).WorkerStatus == api.WorkerAbsent })
	if state := p.state(true); state.SupervisorStatus != api.SupervisorAbsent || state.OldWorkers != nil || state.Phase != api.PhaseConfigured {
		t.Errorf("without a master: %+v", state)
	}
	p.startHAProxy()
	eventually(t, "adoption", func() bool { return p.state(false).WorkerStatus == api.WorkerOwned })
	after := p.state(true)
	if diff := cmp.Diff(before, after, identityOnly); diff != "" {
		t.Errorf("state over a restart of the master (-before +after):\n%s", diff)
	}
	if after.HAProxy == before.HAProxy || p.served() != "one" || metricOf(t, p.agent.metrics.masterRestarts) != 1 {
		t.Errorf("worker %+v serves %q, %v restarts", after.HAProxy, p.served(), metricOf(t, p.agent.metrics.masterRestarts))
	}
	if noop := p.apply(p.output("one").with("a.map", "a b\n")); noop.Mode != api.OutcomeNoop {
		t.Errorf("the same output after the restart: %+v", noop)
	}
}

// TestRestartedMasterOverChangedFiles: the nonce alone does not make a restarted
// master ours, since it may have loaded what somebody wrote into the set.
func TestRestartedMasterOverChangedFiles(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	p.killHAProxy()
	writeFile(t, filepath.Join(p.layout.current(), api.ConfigPath), p.config("somebody else's"))
	p.startHAProxy()
	// Nobody asks for a verified state here.
	var state *api.State
	eventually(t, "notice of the changed files", func() bool { state = p.state(false); return state.InvariantViolation != "" })
	if state.InvariantViolation != violationTree || state.Phase != api.PhaseDisowned || state.AppliedPlanID != "" || state.RunningPlanID != "" {
		t.Errorf("state: %+v", state)
	}
	p.mustLoad(p.output("two"))
	if state = p.state(true); state.Phase != api.PhaseConfigured || state.InvariantViolation != "" {
		t.Errorf("after the next apply: %+v", state)
	}
}

// TestSilentSupervisor: a master that holds its socket and does not answer is
// neither gone nor known, and its worker goes on serving.
func TestSilentSupervisor(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	request := p.request(p.output("two"))
	must(t, p.haproxy.Process.Signal(syscall.SIGSTOP))
	eventually(t, "notice of the silence", func() bool { return p.state(false).SupervisorStatus == api.SupervisorSilent })
	state := p.state(false)
	if state.WorkerStatus != api.WorkerAbsent || state.OldWorkers != nil || state.Phase != api.PhaseConfigured || state.HAProxy.HasWorker() {
		t.Errorf("state of a silent master: %+v", state)
	}
	if p.served() != "one" {
		t.Errorf("frontend serves %q", p.served())
	}
	// How many workers there are is unknown, so a reload has to wait.
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || result.Mode != api.OutcomeScheduled {
		t.Errorf("apply with a silent master: %+v, %v", result, err)
	}
	must(t, p.haproxy.Process.Signal(syscall.SIGCONT))
	eventually(t, "the reload", func() bool { return p.state(false).ReloadPendingAt == nil })
	if state := p.state(true); state.RunningPlanID != request.Manifest.PlanID || state.SupervisorStatus != api.SupervisorAnswering || p.served() != "two" {
		t.Errorf("afterwards it serves %q: %+v", p.served(), state)
	}
}

// TestPhasesOfLostPods: what a pod without its state is, by what it has left.
func TestPhasesOfLostPods(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		loaded bool
		damage func(t *testing.T, p *pod)
		want   api.Phase
	}{
		{"a fresh pod is a bootstrap pod", false, func(*testing.T, *pod) {}, api.PhaseBootstrap},
		{"a fresh pod that lost its journal is not", false,
			func(t *testing.T, p *pod) { must(t, os.Remove(p.layout.journal())) }, api.PhaseDisowned},
		{"a configured pod that lost its journal", true,
			func(t *testing.T, p *pod) { must(t, os.Remove(p.layout.journal())) }, api.PhaseDisowned},
		{"a configured pod that lost its link", true,
			func(t *testing.T, p *pod) { must(t, os.Remove(p.layout.current())) }, api.PhaseDisowned},
		{"a configured pod whose set lost its description", true,
			func(t *testing.T, p *pod) { must(t, os.Remove(p.layout.current()+"/../"+setMeta)) }, api.PhaseDisowned},
		{"a configured pod that lost nothing", true, func(*testing.T, *pod) {}, api.PhaseConfigured},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := newPod(t)
			if tc.loaded {
				p.mustLoad(p.output("one"))
			}
			p.stop()
			tc.damage(t, p)
			p.startAgent()
			state := p.state(true)
			if state.Phase != tc.want || state.IsBootstrap() != (tc.want == api.PhaseBootstrap) {
				t.Errorf("phase %s, bootstrap %t; want %s", state.Phase, state.IsBootstrap(), tc.want)
			}
			p.mustLoad(p.output("healed"))
		})
	}
}
