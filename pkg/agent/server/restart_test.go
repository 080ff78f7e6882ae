package server

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// identityOnly leaves out what a restart changes.
var identityOnly = cmpopts.IgnoreFields(api.State{}, "HAProxy")

// TestRestartedAgentAdoptsItsPod: a new agent process knows everything the old
// one knew, and reloads nothing.
func TestRestartedAgentAdoptsItsPod(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one").with("maps/hosts.map", "a b\n"))
	if _, err := p.client.Announce(t.Context(), p.target, 40); err != nil {
		t.Fatal(err)
	}
	before := p.state(true)
	p.stop()
	p.startAgent()
	after := p.state(true)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("state over a restart of the agent (-before +after):\n%s", diff)
	}
	if after.EpochFloor != 40 || !after.AppliedPlanStored {
		t.Errorf("floor %d, plan stored %t", after.EpochFloor, after.AppliedPlanStored)
	}
}

// TestRestartedHAProxyIsAdopted: HAProxy's container restarts alone and comes
// back with the committed set, which is not a foreign worker.
func TestRestartedHAProxyIsAdopted(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	before := p.state(true)
	p.killHAProxy()
	if absent := p.state(true); absent.WorkerStatus != api.WorkerAbsent || absent.HAProxy.HasWorker() || absent.RunningPlanID != "" {
		t.Errorf("without HAProxy the state says %s %+v", absent.WorkerStatus, absent.HAProxy)
	}
	p.startHAProxy()
	eventually(t, "adoption", func() bool { return p.state(false).WorkerStatus == api.WorkerOwned })
	after := p.state(true)
	if diff := cmp.Diff(before, after, identityOnly); diff != "" {
		t.Errorf("state over a restart of HAProxy (-before +after):\n%s", diff)
	}
	if after.HAProxy.WorkerPID == before.HAProxy.WorkerPID || p.served() != "one" {
		t.Errorf("worker %+v serves %q", after.HAProxy, p.served())
	}
}

// TestKilledWorkerIsReplacedByTheNextApply: 2.6 ends the master as well when a
// worker dies of a signal, so HAProxy's container restarts.
func TestKilledWorkerIsReplacedByTheNextApply(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	if err := syscall.Kill(int(p.state(true).HAProxy.WorkerPID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.haproxy.Wait()
	p.haproxy = nil
	request := p.request(p.output("two"))
	done := make(chan *api.Result, 1)
	go func() {
		result, err := p.client.Apply(context.WithoutCancel(t.Context()), p.target, request)
		if err != nil {
			t.Errorf("apply: %v", err)
		}
		done <- result
	}()
	// The apply is on its way without a worker; the container comes back.
	eventually(t, "the switch", func() bool {
		content, _ := os.ReadFile(filepath.Join(p.layout.current(), api.ConfigPath))
		return string(content) == p.config("two")
	})
	p.startHAProxy()
	if result := <-done; result == nil || !result.OK {
		t.Fatalf("apply ended as %+v", result)
	}
	if got := p.served(); got != "two" {
		t.Errorf("frontend serves %q", got)
	}
}

// TestForeignWorker: a worker that was loaded with something else is said to be
// that, and the next apply makes the pod whole.
func TestForeignWorker(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	nonce := filepath.Join(p.layout.current(), "..", setNonce)
	ours, err := os.ReadFile(nonce)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, nonce, "global\n    description somebody-else\n    stats socket "+p.layout.workerSocket()+" mode 600 level admin expose-fd listeners\n")
	if _, err := ask(t.Context(), p.layout.masterSocket(), "reload"); err != nil {
		t.Fatal(err)
	}
	// On 2.6 the answer comes before the file is read.
	eventually(t, "the foreign worker", func() bool {
		seen, err := p.agent.haproxy.observe(t.Context())
		return err == nil && seen.Info.Description == "somebody-else"
	})
	writeFile(t, nonce, string(ours))
	var state *api.State
	eventually(t, "notice of the foreign worker", func() bool { state = p.state(false); return state.WorkerStatus == api.WorkerForeign })
	if state.Phase != api.PhaseDisowned || state.AppliedPlanID != "" || state.RunningPlanID != "" || state.InvariantViolation != violationForeignWorker {
		t.Errorf("state of a foreign worker: %+v", state)
	}
	p.mustLoad(p.output("two"))
	if state = p.state(true); state.Phase != api.PhaseConfigured || state.InvariantViolation != "" {
		t.Errorf("state after the next apply: %+v", state)
	}
}

// TestChangedFilesAreDisowned: what somebody wrote into the committed set is
// found, whatever it was.
func TestChangedFilesAreDisowned(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		damage func(t *testing.T, files string)
	}{
		{"one changed byte", func(t *testing.T, files string) { writeFile(t, filepath.Join(files, "a.map"), "a c\n") }},
		{"a removed file", func(t *testing.T, files string) { must(t, os.Remove(filepath.Join(files, "a.map"))) }},
		{"an added file", func(t *testing.T, files string) { writeFile(t, filepath.Join(files, "b.map"), "") }},
		{"a symlink to equal content in the set", func(t *testing.T, files string) {
			must(t, os.Remove(filepath.Join(files, "a.map")))
			must(t, os.Symlink("same.map", filepath.Join(files, "a.map")))
		}},
		{"a symlink to equal content elsewhere", func(t *testing.T, files string) {
			elsewhere := filepath.Join(t.TempDir(), "a.map")
			writeFile(t, elsewhere, "a b\n")
			must(t, os.Remove(filepath.Join(files, "a.map")))
			must(t, os.Symlink(elsewhere, filepath.Join(files, "a.map")))
		}},
	}
	p := newPod(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := p.output(tc.name).with("a.map", "a b\n").with("same.map", "a b\n")
			p.mustLoad(o)
			tc.damage(t, p.layout.current())
			state := p.state(true)
			if state.Phase != api.PhaseDisowned || state.InvariantViolation != violationTree || state.AppliedPlanID != "" {
				t.Errorf("state after the damage: phase %s, violation %q, plan %q", state.Phase, state.InvariantViolation, state.AppliedPlanID)
			}
			// The same output again must not be taken for a noop, and the
			// damaged file must not be carried over.
			p.mustLoad(o)
			if state = p.state(true); state.Phase != api.PhaseConfigured {
				t.Errorf("state after the next apply: %s", state.Phase)
			}
		})
	}
}

// TestUnnoticedDamageIsNoNoop: "nothing to do" is said of files that were
// looked at, not of a memory of them.
func TestUnnoticedDamageIsNoNoop(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	o := p.output("one").with("a.map", "a b\n")
	p.mustLoad(o)
	request := p.request(o)
	writeFile(t, filepath.Join(p.layout.current(), "a.map"), "a c\n")
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || result.Mode != api.OutcomeReload {
		t.Errorf("apply over damaged files: %+v, %v", result, err)
	}
	if state := p.state(true); state.Phase != api.PhaseConfigured {
		t.Errorf("state after it: %s", state.Phase)
	}
}

// TestLostJournal: a pod with files and without a journal is disowned, and
// recovery, which expects a bootstrap pod, is refused.
func TestLostJournal(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"", "{", `{"version":2,"current":"s0-00000000000000000000000000000000"}`} {
		p := newPod(t)
		p.mustLoad(p.output("one"))
		p.stop()
		if damage == "" {
			must(t, os.Remove(p.layout.journal()))
		} else {
			writeFile(t, p.layout.journal(), damage)
		}
		p.startAgent()
		state := p.state(true)
		if state.Phase != api.PhaseDisowned || state.IsBootstrap() || p.served() != "one" {
			t.Errorf("journal %q: phase %s, serves %q", damage, state.Phase, p.served())
		}
		recovery := p.request(p.output("recovered"))
		recovery.Manifest.ExpectedPhase = api.PhaseBootstrap
		_, err := p.client.Apply(t.Context(), p.target, recovery)
		wantConflict(t, err, api.ReasonPhaseMismatch)
		p.mustLoad(p.output("healed"))
	}
}

// TestRevertLeavesAPlanThatNoWorkerRuns: HAProxy's container cannot start with
// the applied plan any more, and the controller sends the pod back.
func TestRevertLeavesAPlanThatNoWorkerRuns(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	first := p.mustLoad(p.output("one").with("a.map", "a b\n"))
	second := p.mustLoad(p.output("two"))
	revert := p.request(p.output("two"))
	revert.Manifest.Mode, revert.Manifest.Files, revert.Plan = api.ModeRevertLKG, nil, nil
	_, err := p.client.Apply(t.Context(), p.target, revert)
	wantConflict(t, err, api.ReasonRevertTargetMismatch) // its worker runs it

	p.killHAProxy()
	done := make(chan *api.Result, 1)
	go func() {
		result, err := p.client.Apply(context.WithoutCancel(t.Context()), p.target, revert)
		if err != nil {
			t.Errorf("revert: %v", err)
		}
		done <- result
	}()
	eventually(t, "the switch back", func() bool {
		content, _ := os.ReadFile(filepath.Join(p.layout.current(), api.ConfigPath))
		return string(content) == p.config("one")
	})
	p.startHAProxy()
	if result := <-done; result == nil || result.AppliedPlanID != first.AppliedPlanID {
		t.Fatalf("revert from %s ended as %+v", second.AppliedPlanID, result)
	}
	if state := p.state(true); state.RunningPlanID != first.PlanID || p.served() != "one" || !state.AppliedPlanStored {
		t.Errorf("after the revert: %+v", state)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
