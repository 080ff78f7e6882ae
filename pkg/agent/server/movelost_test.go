package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// TestOperationsOnAKilledWorker: a worker that was started anew by its container
// was loaded from the files, whatever was known of the one before.
func TestOperationsOnAKilledWorker(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	start := p.rich("start")
	p.mustLoad(start)
	set := plan.Operation{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "x"}
	next := start.edit(t, "maps/hosts.map", "two words", "x")
	p.mustMove(next, set)
	before := p.state(true)
	p.stop()
	p.startAgent()
	if diff := cmp.Diff(before, p.state(true)); diff != "" {
		t.Errorf("state over a restart of the agent (-before +after):\n%s", diff)
	}
	p.restartHAProxy()
	p.mustRun(next, "after a restart of HAProxy")
	// A file that no worker loads does not hide what the worker was loaded with.
	p.mustMove(start, plan.Operation{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "two words"})
	noted := start.with("note.txt", "x")
	if result := p.apply(noted); result.Mode != api.OutcomeFileOnly || result.WorkerOpsPlanID != result.PlanID || result.RunningPlanID == result.PlanID {
		t.Errorf("a file exchanged beneath a changed worker: %+v", result)
	}
	// Killed between the read and the apply: nobody is there to be changed.
	request := p.request(next.with("note.txt", "x"))
	request.Manifest.InPlaceOps, request.Manifest.Ops = true, []plan.Operation{set}
	must(t, syscall.Kill(int(p.state(true).HAProxy.WorkerPID), syscall.SIGKILL))
	_ = p.haproxy.Wait()
	p.haproxy = nil
	p.startHAProxy()
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || !result.OK {
		t.Fatalf("apply: %+v, %v", result, err)
	}
	if state := p.state(true); state.InvariantViolation != "" || state.AppliedPlanID != request.Manifest.PlanID {
		t.Errorf("afterwards: %+v", state)
	}
}

// TestP20CrashAtEveryOperation: an apply in place that is ended anywhere is found
// to have happened or not, and a worker in between is loaded anew.
func TestP20CrashAtEveryOperation(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	current := p.rich("start").with("maps/hosts.map", "k 0\n")
	p.mustLoad(current)
	for step := int64(1); ; step++ {
		var count atomic.Int64
		value := fmt.Sprint(step)
		next := current.with("maps/hosts.map", "k "+value+"\n")
		request := p.request(next)
		request.Manifest.InPlaceOps = true
		request.Manifest.Ops = []plan.Operation{{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "k", Value: value}}
		p.agent.disk.intercept(func(string) error {
			if count.Add(1) < step {
				return nil
			}
			return errCrash
		})
		_, err := p.client.Apply(t.Context(), p.target, request)
		crashed := count.Load() >= step
		p.stop()
		p.agent.disk.intercept(nil)
		p.startAgent()
		state := p.state(true)
		what := fmt.Sprintf("step %d (apply: %v)", step, err)
		file, _ := os.ReadFile(filepath.Join(p.layout.current(), "maps/hosts.map"))
		applied := state.AppliedPlanID == request.Manifest.PlanID
		if applied != (string(file) == "k "+value+"\n") || state.Phase != api.PhaseConfigured {
			t.Fatalf("%s: file is %q, %+v", what, file, state)
		}
		rows, err := ask(t.Context(), p.layout.workerSocket(), "show map maps/hosts.map")
		must(t, err)
		if moved := strings.HasSuffix(rows, " k "+value+"\n\n"); state.InvariantViolation != "" || moved != applied {
			t.Fatalf("%s: applied %t, rows %q, violation %q", what, applied, rows, state.InvariantViolation)
		}
		p.checkNoLeftovers(what)
		if !crashed {
			t.Logf("crashed at each of %d steps", step-1)
			return
		}
		current = next
		if result := p.apply(current); !result.OK {
			t.Fatalf("%s: the same output again ended as %s", what, result.Mode)
		}
	}
}

// TestAWorkerLostAtTheSwitch: HAProxy is started anew while an apply in place
// makes its set current, so that nobody knows which set was loaded.
func TestAWorkerLostAtTheSwitch(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	start := p.rich("start")
	p.mustLoad(start)
	next := start.edit(t, "maps/hosts.map", "two words", "x")
	request := p.request(next)
	request.Manifest.InPlaceOps = true
	request.Manifest.Ops = []plan.Operation{{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "x"}}
	worker, restarted := p.state(true).HAProxy, false
	p.agent.disk.intercept(func(step string) error {
		if restarted || step != "rename "+p.layout.current() {
			return nil
		}
		restarted = true // from the old set, which is current still
		_ = syscall.Kill(int(worker.WorkerPID), syscall.SIGKILL)
		_ = p.haproxy.Wait()
		p.haproxy = nil
		p.startHAProxy()
		s := &supervisor{master: p.layout.masterSocket(), worker: p.layout.workerSocket()}
		for {
			if seen, err := s.observeBoth(t.Context()); err == nil && seen.Info.PID != worker.WorkerPID {
				return nil
			}
			if err := pause(t.Context(), pollStart); err != nil {
				return err
			}
		}
	})
	result, err := p.client.Apply(t.Context(), p.target, request)
	must(t, err)
	if !restarted || result.Mode != api.OutcomeReload || len(result.OpResults) != 1 {
		t.Fatalf("ended as %s: %+v", result.Mode, result)
	}
	p.agent.disk.intercept(nil)
	p.mustRun(next, "after the worker was lost")
	p.mustMove(start, plan.Operation{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "two words"})
	p.checkNoLeftovers("afterwards")
}

// TestOperationsAndPacing: what needs no reload waits for none. What falls back to
// one inside the interval waits like any other, and the worker in between is named.
func TestOperationsAndPacing(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	p.pace = 5 * time.Second
	p.startHAProxy()
	p.startAgent()
	start := p.rich("start")
	p.mustLoad(start)
	set := plan.Operation{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "x"}
	next := start.edit(t, "maps/hosts.map", "two words", "x")
	p.mustMove(next, set)
	set.Value = "y"
	last := start.edit(t, "maps/hosts.map", "two words", "y")
	p.mustLoadWhenDue(p.rich("another"))
	p.mustLoadWhenDue(start) // its reload has only just been
	result := p.move(last, set, plan.Operation{Kind: plan.OpMapDelete, Path: "maps/hosts.map", Key: "not-there"})
	if result.Mode != api.OutcomeScheduled || len(result.OpResults) != 2 || result.ReloadPendingAt == nil {
		t.Fatalf("ended as %s: %+v", result.Mode, result)
	}
	if state := p.state(true); state.ReloadPendingAt != nil && state.InvariantViolation != violationMaps {
		t.Errorf("in between: %+v", state)
	}
	eventually(t, "the reload", func() bool { return p.state(true).ReloadPendingAt == nil })
	p.mustRun(last, "after the scheduled reload")
}

// mustLoadWhenDue applies an output whose reload may be put off, and waits for it.
func (p *pod) mustLoadWhenDue(o output) {
	p.t.Helper()
	p.apply(o)
	eventually(p.t, "the reload", func() bool { return p.state(true).ReloadPendingAt == nil })
	p.mustRun(o, "when due")
}
