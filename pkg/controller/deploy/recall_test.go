package deploy

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// where is what a pod carries and what its worker runs.
func (a *agent) where() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.AppliedPlanID + " " + a.state.RunningPlanID
}

func on(c *Candidate) string { return c.Output.Plan.ID + " " + c.Output.Plan.ID }

func (a *agent) tokens() (tokens []api.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.reverts {
		tokens = append(tokens, m.Token)
	}
	return tokens
}

// settled is a fleet that runs a first output, and may take the second one in
// part.
func settled(t *testing.T, d *Deployer) (first, second *Candidate) {
	t.Helper()
	first, second = candidate(t, 1, "one"), candidate(t, 2, "two")
	d.Dispatch(first)
	pass(DefaultMinInterval)
	return first, second
}

func TestARecallRevertsPodsThatDidNotLoadTheOutputAndLeavesTheOthers(t *testing.T) {
	f := newFleet("loaded", "scheduled", "down")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first, second := settled(t, d)
		f.agent("scheduled").schedule = 5 * time.Second
		d.Dispatch(second)
		synctest.Wait()
		down := f.agent("down")
		down.mu.Lock()
		down.state.WorkerStatus, down.state.RunningPlanID, down.state.RunningPlanProof = api.WorkerAbsent, "", ""
		down.mu.Unlock()
		d.Recall(second, first.Instead(second, 3))
		synctest.Wait()
		for name, want := range map[string]string{"loaded": on(second), "scheduled": on(first)} {
			if got := f.agent(name).where(); got != want {
				t.Errorf("pod %s is at %q, want %q", name, got, want)
			}
		}
		revert := []api.Token{{LeaderEpoch: 7, RenderSeq: 2}}
		for name, want := range map[string][]api.Token{"loaded": nil, "scheduled": revert, "down": revert} {
			if diff := cmp.Diff(want, f.agent(name).tokens()); diff != "" {
				t.Errorf("reverts of pod %s (-want +got):\n%s", name, diff)
			}
		}
		want := []string{first.Output.Plan.ID, second.Output.Plan.ID, first.Output.Plan.ID}
		if diff := cmp.Diff(want, f.intents()); diff != "" {
			t.Errorf("intents (-want +got):\n%s", diff)
		}
		pass(10 * time.Minute)
		if got := f.agent("loaded").where(); got != on(second) {
			t.Errorf("the pod that loaded the output is at %q after some drift rounds, want %q", got, on(second))
		}
		if got := f.entries()["loaded"]; got != "reload: "+(&KeptError{PlanID: second.Output.Plan.ID}).Error() {
			t.Errorf("it is reported as %q", got)
		}
		third := candidate(t, 4, "three")
		d.Dispatch(third)
		pass(10 * time.Second)
		for _, name := range []string{"loaded", "scheduled", "down"} {
			if got := f.agent(name).plan(); got != third.Output.Plan.ID {
				t.Errorf("pod %s has %q of the next output, want %q", name, got, third.Output.Plan.ID)
			}
		}
	})
}

// A pod that comes up is served from what is known to be good, under an intent
// that says so.
func TestAfterARecallNewPodsGetTheOutputBefore(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first, second := settled(t, d)
		d.Dispatch(second)
		synctest.Wait()
		d.Recall(second, first.Instead(second, 3))
		pass(time.Second)
		fresh := f.add(Pod{Name: "b", UID: "b-uid", Address: "10.244.0.9:9444"})
		d.Wake()
		synctest.Wait()
		if got := fresh.where(); got != on(first) {
			t.Errorf("the new pod is at %q, want %q", got, on(first))
		}
		if got := fresh.token(); got != (api.Token{LeaderEpoch: 7, RenderSeq: 3}) {
			t.Errorf("its token is %+v", got)
		}
	})
}

// Nothing of a recalled output goes to pods that had not got it yet.
func TestARecallEndsTheDeploymentUnderWay(t *testing.T) {
	f := newFleet("slow")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first, second := settled(t, d)
		f.agent("slow").delay = 20 * time.Second
		d.Dispatch(second)
		pass(time.Second)
		f.agent("slow").delay = 0 // no lock: the apply under way has read it
		began := time.Now()
		d.Recall(second, first.Instead(second, 3))
		synctest.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the recall took %s, it waited for the slow pod", took)
		}
		if got := f.agent("slow").where(); got != on(first) {
			t.Errorf("the pod is at %q, want %q", got, on(first))
		}
	})
}

func TestARecallDoesNotWaitForTheIntentOfWhatComesInstead(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first, second := settled(t, d)
		f.agent("a").schedule = 5 * time.Second
		d.Dispatch(second)
		synctest.Wait()
		f.mu.Lock()
		f.record = errors.New("no API server")
		f.mu.Unlock()
		d.Recall(second, first.Instead(second, 3))
		pass(10 * time.Second)
		if got := f.agent("a").where(); got != on(first) {
			t.Errorf("the pod is at %q, want %q", got, on(first))
		}
	})
}

// A newer output is under way already: it replaces the recalled one by itself.
func TestARecallLeavesANewerOutputAlone(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		_, second := settled(t, d)
		third := candidate(t, 3, "three")
		f.agent("a").schedule = 5 * time.Second
		d.Dispatch(second)
		synctest.Wait()
		f.agent("a").schedule = 0
		d.Dispatch(third)
		d.Recall(second, nil)
		pass(10 * time.Second)
		if got := f.agent("a").where(); got != on(third) {
			t.Errorf("the pod is at %q, want %q", got, on(third))
		}
		if got := f.agent("a").tokens(); len(got) != 1 {
			t.Errorf("%d reverts ahead of the newer output, want 1", len(got))
		}
	})
}

func TestADrainFollowsUpANewerOutputWhenAnOlderOneIsRecalled(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		_, second := settled(t, d)
		d.Dispatch(second)
		pass(DefaultMinInterval)
		f.agent("a").schedule = 5 * time.Second
		third := candidate(t, 3, "three")
		d.Dispatch(third)
		synctest.Wait()
		d.Recall(second, nil)
		if err := d.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.agent("a").where(); got != on(third) {
			t.Errorf("at the end of the drain the pod is at %q, want %q", got, on(third))
		}
		if diff := cmp.Diff(map[string]string{"a": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("reports at the end of the drain (-want +got):\n%s", diff)
		}
	})
}

func TestADrainTakesBackWhatIsRecalledMeanwhile(t *testing.T) {
	for _, late := range []bool{false, true} {
		f := newFleet("a")
		f.agent("a").schedule = 0
		inTerm(t, f, func(t *testing.T, d *Deployer) {
			first, second := settled(t, d)
			f.agent("a").schedule = 30 * time.Second
			d.Dispatch(second)
			synctest.Wait()
			ended := make(chan error)
			go func() { ended <- d.Drain(t.Context()) }()
			pass(time.Second)
			began := time.Now()
			if late {
				// The drain finished: the reload that was put off fired.
				if err := <-ended; err != nil {
					t.Error(err)
				}
				began = time.Now()
				go func() { ended <- d.Drain(t.Context()) }()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			d.Recall(second, first.Instead(second, 3))
			if late {
				go func() { ended <- d.Drain(t.Context()) }()
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the drain went on for %s after the recall", took)
			}
			want := on(first)
			if late {
				want = on(second) // it was loaded, so it stays
			}
			if got := f.agent("a").where(); got != want {
				t.Errorf("late %t: the pod is at %q, want %q", late, got, want)
			}
			if report := f.lastReport(); report.Sequence != 3 || report.Receipt == late {
				t.Errorf("late %t: the last report is %+v, want one of what came instead", late, report)
			}
			if got := f.intents(); got[len(got)-1] != first.Output.Plan.ID {
				t.Errorf("late %t: the last intent is %s, want that of the output before", late, got[len(got)-1])
			}
		})
	}
}
