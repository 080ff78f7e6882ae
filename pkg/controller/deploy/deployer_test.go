package deploy

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
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

// pass lets virtual time pass and everything that is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
