package deploy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// inTerm runs a Deployer in virtual time around a test.
func inTerm(t *testing.T, f *fleetOf, test func(t *testing.T, d *Deployer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := New(Settings{TemplateUID: templateUID}, Parts{Agents: f, Term: f, Fleet: f, Sink: f})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.Run(ctx)
		}()
		test(t, d)
		cancel()
		<-ended
	})
}

// entries are the newest reports by pod, as one line each.
func (f *fleetOf) entries() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	for _, r := range f.reports {
		line := r.Entry.Mode
		if r.Receipt {
			line += " receipt"
		}
		if r.Entry.LastError != "" {
			line += ": " + r.Entry.LastError
		}
		out[r.Pod.Name] = line
	}
	return out
}

func (f *fleetOf) happened() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.order)
}

func TestAnOutputIsAnnouncedThenRecordedThenApplied(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		synctest.Wait()
		c := candidate(t, 1, "one")
		d.Dispatch(c)
		synctest.Wait()
		id := c.Output.Plan.ID
		if diff := cmp.Diff([]string{"announce a 7", "record " + id, "apply a " + id}, f.happened()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"a": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		report := f.lastReport()
		if !report.Entry.Confirms(c.Checksum, id) || report.Sequence != 1 {
			t.Errorf("report %+v does not confirm the output", report)
		}
		if got := f.agent("a").token(); got != (api.Token{LeaderEpoch: 7, RenderSeq: 1}) {
			t.Errorf("token = %+v, want epoch 7, sequence 1", got)
		}
	})
}

func TestNothingIsAppliedWithoutAnIntent(t *testing.T) {
	f := newFleet("a")
	f.record = errors.New("conflict")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		pass(10 * time.Minute)
		if applies := f.agent("a").count(); applies != 0 {
			t.Errorf("%d applies without an intent", applies)
		}
		f.mu.Lock()
		f.record = nil
		f.mu.Unlock()
		pass(2 * DefaultDriftInterval)
		if diff := cmp.Diff(map[string]string{"a": "noop receipt"}, f.entries()); diff != "" {
			t.Errorf("after the intent was recorded (-want +got):\n%s", diff)
		}
		if applies := f.agent("a").count(); applies != 1 {
			t.Errorf("%d applies, want 1", applies)
		}
	})
}

func TestAPodThatRunsExactlyTheOutputIsLeftAlone(t *testing.T) {
	f := newFleet("a")
	c := candidate(t, 1, "one")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(c)
		synctest.Wait()
	})
	f.epoch, f.reports = 8, nil // the next term, with the same output
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
		if diff := cmp.Diff(map[string]string{"a": "noop receipt"}, f.entries()); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		if applies := f.agent("a").count(); applies != 1 {
			t.Errorf("%d applies, want only the first term's", applies)
		}
	})
}

func TestADriftedPodIsBroughtBack(t *testing.T) {
	tests := []struct {
		name  string
		drift func(*api.State)
	}{
		{"a changed file", func(s *api.State) {
			s.Files = map[string]api.FileState{"haproxy.cfg": s.Files["haproxy.cfg"], "maps/a.map": {Digest: "0"}}
		}},
		{"a file more", func(s *api.State) {
			files := map[string]api.FileState{"x": {}}
			for path, state := range s.Files {
				files[path] = state
			}
			s.Files = files
		}},
		{"a foreign worker", func(s *api.State) { s.WorkerStatus = api.WorkerForeign }},
		{"a worker that runs something else", func(s *api.State) { s.RunningPlanID = "" }},
		{"a plan of the same ID with another proof", func(s *api.State) { s.AppliedPlanProof = api.PlanProof(nil) }},
		{"an agent that lost its state", func(s *api.State) { s.Phase, s.Plans, s.AppliedToken = api.PhaseDisowned, api.Plans{}, api.Token{} }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFleet("a")
			inTerm(t, f, func(t *testing.T, d *Deployer) {
				d.Dispatch(candidate(t, 1, "one"))
				synctest.Wait()
				a := f.agent("a")
				a.mu.Lock()
				tc.drift(&a.state)
				a.mu.Unlock()
				pass(DefaultDriftInterval + time.Second)
				if applies := a.count(); applies != 2 {
					t.Errorf("%d applies, want a second one", applies)
				}
			})
		})
	}
}

func TestNewAndRestartedPodsGetTheCurrentOutput(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
		f.add(Pod{Name: "b", UID: "b-uid", Address: "10.244.0.9:9444"})
		d.Wake()
		synctest.Wait()
		if diff := cmp.Diff(map[string]string{"a": "reload receipt", "b": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("after a new pod (-want +got):\n%s", diff)
		}
		a := f.agent("a")
		a.mu.Lock()
		a.state.WorkerStatus = api.WorkerForeign // the container came back with something else
		a.mu.Unlock()
		f.mu.Lock()
		a.pod.Incarnation = "haproxy/1"
		f.mu.Unlock()
		d.Wake()
		synctest.Wait()
		if applies := a.count(); applies != 2 {
			t.Errorf("the restarted pod got %d applies, want 2", applies)
		}
		if len(f.intents()) != 1 {
			t.Errorf("recorded %v, want one intent for one output", f.intents())
		}
		if diff := cmp.Diff([]uint64{7}, f.agent("b").announce); diff != "" {
			t.Errorf("announcements to the new pod (-want +got):\n%s", diff)
		}
	})
}

func TestNewPodsHearOfATermThatHasNoOutput(t *testing.T) {
	f := newFleet()
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		synctest.Wait()
		b := f.add(Pod{Name: "b", UID: "b-uid", Address: "10.244.0.9:9444"})
		b.down = errors.New("connection refused")
		d.Wake()
		synctest.Wait()
		b.mu.Lock()
		b.down = nil
		b.mu.Unlock()
		pass(5 * time.Second)
		if diff := cmp.Diff([]uint64{7}, b.announce); diff != "" {
			t.Errorf("announcements (-want +got):\n%s", diff)
		}
		if b.count() != 0 || len(f.intents()) != 0 {
			t.Errorf("%d applies and intents %v without an output", b.count(), f.intents())
		}
	})
}

func TestOutputsThatCameMeanwhileCoalesceToTheNewest(t *testing.T) {
	f := newFleet("a", "slow")
	f.agent("slow").delay = 5 * time.Second
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first, last := candidate(t, 1, "one"), candidate(t, 4, "four")
		d.Dispatch(first)
		synctest.Wait()
		d.Dispatch(candidate(t, 2, "two"))
		d.Dispatch(candidate(t, 3, "three"))
		d.Dispatch(last)
		pass(20 * time.Second)
		if diff := cmp.Diff([]string{first.Output.Plan.ID, last.Output.Plan.ID}, f.intents()); diff != "" {
			t.Errorf("intents (-want +got):\n%s", diff)
		}
		if got := f.agent("slow").plan(); got != last.Output.Plan.ID {
			t.Errorf("the slow pod ended at %s, want %s", got, last.Output.Plan.ID)
		}
	})
}

func TestDeploymentsKeepTheirDistance(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
		d.Dispatch(candidate(t, 2, "two"))
		pass(DefaultMinInterval - time.Millisecond)
		if len(f.intents()) != 1 {
			t.Errorf("recorded %d intents within the interval, want 1", len(f.intents()))
		}
		pass(100 * time.Millisecond)
		if len(f.intents()) != 2 {
			t.Errorf("recorded %d intents after the interval, want 2", len(f.intents()))
		}
	})
}

func TestAPodThatMovedIsReadAgain(t *testing.T) {
	move := func(a *agent) { a.state.AppliedToken.RenderSeq++ }
	t.Run("once", func(t *testing.T) {
		f := newFleet("a")
		f.agent("a").before = move
		inTerm(t, f, func(t *testing.T, d *Deployer) {
			d.Dispatch(candidate(t, 1, "one"))
			synctest.Wait()
			if diff := cmp.Diff(map[string]string{"a": "reload receipt"}, f.entries()); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("but not for ever", func(t *testing.T) {
		f := newFleet("a")
		var again func(*agent)
		again = func(a *agent) { move(a); a.before = again }
		f.agent("a").before = again
		inTerm(t, f, func(t *testing.T, d *Deployer) {
			d.Dispatch(candidate(t, 1, "one"))
			synctest.Wait()
			if got := f.entries()["a"]; !strings.Contains(got, "gave up after 3 attempts") {
				t.Errorf("report = %q, want one that gave up", got)
			}
		})
	})
}

func TestALostAnswerIsResolvedByReading(t *testing.T) {
	f := newFleet("a")
	f.agent("a").mute = true
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
		if diff := cmp.Diff(map[string]string{"a": "noop receipt"}, f.entries()); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		if applies := f.agent("a").count(); applies != 1 {
			t.Errorf("%d applies, want 1", applies)
		}
	})
}

func TestARejectionIsReportedAndNotRepeatedAtOnce(t *testing.T) {
	f := newFleet("a", "b")
	f.agent("a").reject = "cannot bind socket"
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		pass(DefaultDriftInterval - time.Second)
		want := map[string]string{"a": "rejected: rejected at stage reload: cannot bind socket", "b": "reload receipt"}
		if diff := cmp.Diff(want, f.entries()); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		if applies := f.agent("a").count(); applies != 1 {
			t.Errorf("%d applies before the drift check, want 1", applies)
		}
		a := f.agent("a")
		a.mu.Lock()
		a.reject = "" // the port is free again
		a.mu.Unlock()
		pass(DefaultDriftInterval)
		if diff := cmp.Diff("reload receipt", f.entries()["a"]); diff != "" {
			t.Errorf("after the cause was gone (-want +got):\n%s", diff)
		}
	})
}

func TestAFailureNeverClaimsWhatWasNotDelivered(t *testing.T) {
	f := newFleet("a")
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first := candidate(t, 1, "one")
		d.Dispatch(first)
		synctest.Wait()
		a := f.agent("a")
		a.mu.Lock()
		a.down = errors.New("connection refused")
		a.mu.Unlock()
		d.Dispatch(candidate(t, 2, "two"))
		pass(DefaultMinInterval + 10*time.Millisecond)
		report := f.lastReport()
		want := checkpoint.PodEntry{
			PodName: "a", PodUID: "a-uid", PodRuntimeID: "2000-11", Checksum: first.Checksum,
			AppliedPlanID: first.Output.Plan.ID, RunningPlanID: first.Output.Plan.ID, Mode: "reload", LastError: "connection refused",
		}
		if diff := cmp.Diff(want, report.Entry); diff != "" || report.Receipt {
			t.Errorf("entry (-want +got), receipt %t:\n%s", report.Receipt, diff)
		}
	})
}

func TestAHigherFloorRaisesTheEpochBeforeTheNextApply(t *testing.T) {
	f := newFleet("a", "b")
	f.agent("a").fence = api.Token{LeaderEpoch: 20}
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
		if diff := cmp.Diff([]uint64{20}, f.reclaims); diff != "" {
			t.Errorf("reclaims (-want +got):\n%s", diff)
		}
		for _, name := range []string{"a", "b"} {
			if got := f.agent(name).token(); got != (api.Token{LeaderEpoch: 21, RenderSeq: 1}) {
				t.Errorf("pod %s is at token %+v, want epoch 21", name, got)
			}
		}
	})
}

func TestAPodOfAnotherUIDIsNotServed(t *testing.T) {
	f := newFleet("a")
	f.agent("a").pod.UID = "new-uid"
	f.agents["10.244.0.1:9444"].state.PodUID = "new-uid"
	stale := Pod{Name: "a", UID: "a-uid", Address: "10.244.0.1:9444"}
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		_, err := d.bring(t.Context(), stale, candidate(t, 1, "one"))
		if err == nil || !strings.Contains(err.Error(), string(api.ReasonWrongPod)) {
			t.Errorf("bring() error = %v, want %s", err, api.ReasonWrongPod)
		}
	})
}

func TestDrainFinishesTheDeploymentUnderWayAndStartsNoOther(t *testing.T) {
	f := newFleet("a")
	f.agent("a").delay = 3 * time.Second
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first := candidate(t, 1, "one")
		d.Dispatch(first)
		synctest.Wait()
		d.Dispatch(candidate(t, 2, "two"))
		started := time.Now()
		if err := d.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != 3*time.Second {
			t.Errorf("Drain() took %s, want the 3 s that the apply took", took)
		}
		if diff := cmp.Diff(map[string]string{"a": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("reports at the end of the drain (-want +got):\n%s", diff)
		}
		pass(10 * time.Minute)
		if diff := cmp.Diff([]string{first.Output.Plan.ID}, f.intents()); diff != "" {
			t.Errorf("intents (-want +got):\n%s", diff)
		}
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	f := newFleet("a")
	f.agent("a").delay = 20 * time.Second
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if err := d.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain() error = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestATermThatEndedReportsNothing(t *testing.T) {
	f := newFleet("a")
	f.agent("a").delay = 3 * time.Second
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
	})
	if len(f.reports) > 0 {
		t.Errorf("reports after the end of the term: %+v", f.reports)
	}
}

func TestManyPodsTakeAsLongAsTheSlowest(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = "pod-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	f := newFleet(names...)
	for _, a := range f.agents {
		a.delay = time.Second
	}
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		pass(1100 * time.Millisecond)
		if got := len(f.entries()); got != 100 {
			t.Errorf("%d of 100 pods served after 1.1 times the slowest", got)
		}
	})
}

func TestPrepareRefusesWhatNoAgentTakes(t *testing.T) {
	c := candidate(t, 1, "one")
	c.Output.Plan.Files[0].Digest = "0000000000000000"
	if _, err := Prepare(c.Output, 1, nil); err == nil {
		t.Error("Prepare() took a plan that declares other content")
	}
	big := candidate(t, 1, "one")
	big.Output.Artifacts[0].RuntimePath = strings.Repeat("a", 300)
	big.Output.Plan.Files[1].Path = strings.Repeat("a", 300)
	if _, err := Prepare(big.Output, 1, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Prepare() error = %v, want %v", err, ErrTooLarge)
	}
}

// pass lets virtual time pass and everything that is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
