package server

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// TestFileOnly: files that no worker loads are exchanged beneath it, and the pod
// is that output over every kind of restart.
func TestFileOnly(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	first := p.mustLoad(p.output("one").with("notes.txt", "a"))
	for i, o := range []output{
		p.output("one").with("notes.txt", "b"),
		p.output("one").with("notes.txt", "b").with("more.txt", "c"),
		p.output("one"),
	} {
		result := p.apply(o)
		if result.Mode != api.OutcomeFileOnly || result.HAProxy != first.HAProxy || result.AppliedPlanID != result.PlanID || result.RunningPlanID != result.PlanID {
			t.Fatalf("exchange %d: %+v", i, result)
		}
		if state := p.state(true); state.InvariantViolation != "" || state.LKGPlanID != result.PlanID || int(state.Generation) != 2*(i+1) {
			t.Errorf("exchange %d: %+v", i, state)
		}
		if repeat := p.apply(o); repeat.Mode != api.OutcomeNoop {
			t.Errorf("exchange %d again: %s", i, repeat.Mode)
		}
	}
	before := p.state(true)
	p.stop()
	p.startAgent()
	if diff := cmp.Diff(before, p.state(true)); diff != "" {
		t.Errorf("state over a restart of the agent (-before +after):\n%s", diff)
	}
	p.restartHAProxy()
	if diff := cmp.Diff(before, p.state(true), identityOnly); diff != "" {
		t.Errorf("state over a restart of HAProxy (-before +after):\n%s", diff)
	}
	// Anything that a worker loads needs a reload.
	p.mustLoad(p.output("one").with("a.map", "a b\n"))
	p.mustLoad(p.output("two").with("notes.txt", "b").with("a.map", "a b\n"))
	// And so does a pod that is not what it should be.
	if _, err := ask(t.Context(), p.layout.workerSocket(), "set server x/y weight 1"); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.layout.current(), "notes.txt"), "changed")
	p.mustLoad(p.output("two").with("notes.txt", "d").with("a.map", "a b\n"))
}

// TestP20CrashAtEveryExchange: like a reload, an exchange that is ended anywhere
// is found to have happened or not.
func TestP20CrashAtEveryExchange(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one").with("notes.txt", "0"))
	worker := p.state(true).HAProxy
	for step := int64(1); ; step++ {
		var count atomic.Int64
		p.agent.disk.intercept(func(string) error {
			if count.Add(1) < step {
				return nil
			}
			return errCrash
		})
		next := fmt.Sprint(step)
		request := p.request(p.output("one").with("notes.txt", next))
		before := p.state(false).AppliedPlanID
		_, err := p.client.Apply(t.Context(), p.target, request)
		crashed := count.Load() >= step
		p.stop()
		p.agent.disk.intercept(nil)
		p.startAgent()
		state := p.state(true)
		what := fmt.Sprintf("step %d (apply: %v)", step, err)
		notes, _ := os.ReadFile(filepath.Join(p.layout.current(), "notes.txt"))
		if isNext := string(notes) == next; state.AppliedPlanID != before && !isNext || state.AppliedPlanID != request.Manifest.PlanID && isNext {
			t.Fatalf("%s: notes are %q, applied is %s, before %s", what, notes, state.AppliedPlanID, before)
		}
		if state.Phase != api.PhaseConfigured || state.InvariantViolation != "" || state.HAProxy != worker {
			t.Fatalf("%s: %+v", what, state)
		}
		p.checkNoLeftovers(what)
		if !crashed {
			t.Logf("crashed at each of %d steps", step-1)
			return
		}
	}
}
