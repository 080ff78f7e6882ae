package recovery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/fencing"
)

func TestP1AReplacementPodGetsTheIntendedCheckpointAndNobodyElseAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := site(t, "one"), site(t, "two")
		w := newWorld(t, publish(t, two), publish(t, one))
		w.excluded = []Excluded{{Name: "job", Why: "has ended"}}
		a, b, c := w.add("a", configuredState(t, two)), w.add("b", configuredState(t, two)), w.add("c", bootstrapState())
		w.during(t, func(x *term) {
			w.pass(time.Second)
			if diff := cmp.Diff([]int{0, 0, 1}, []int{a.applies, b.applies, c.applies}); diff != "" {
				t.Errorf("applies of a, b and c (-want +got):\n%s", diff)
			}
			// What the pod was handed is what was published, to the byte.
			if diff := cmp.Diff(fileStates(two), fileStates(c.received)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if c.received.Plan.ID != two.Plan.ID || c.received.Checksum() != two.Checksum() {
				t.Errorf("received plan %s, want %s", c.received.Plan.ID, two.Plan.ID)
			}
			want := []string{"RetainedConfigActive: Checkpoint " + two.Checksum() +
				" is given to bootstrap pods, because nothing can be rendered: RenderFailed: line 3: missing key. Not counted: job (has ended)"}
			if diff := cmp.Diff(want, w.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if x.gauge() != 1 || len(w.activations) != 1 || w.activations[0].Checksum != two.Checksum() {
				t.Errorf("gauge %v, marks %v, want 1 and one mark", x.gauge(), w.activations)
			}
			if !strings.Contains(w.health, two.Checksum()) {
				t.Errorf("health = %q, want it to name the checkpoint", w.health)
			}
			w.pass(10 * time.Minute)
			if diff := cmp.Diff(want, w.told()); diff != "" {
				t.Errorf("events later on (-want +got):\n%s", diff)
			}
			if c.applies != 1 || w.gated != 1 {
				t.Errorf("%d applies and %d checks in the end, want 1 and 1", c.applies, w.gated)
			}
		})
		if x := w.health; x != "" {
			t.Errorf("health after the term = %q, want nothing", x)
		}
	})
}

func TestWithoutABootstrapPodNothingStoredIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		w.add("a", configuredState(t, one))
		w.during(t, func(x *term) {
			w.pass(5 * time.Minute)
			if w.store.reads != 0 || w.gated != 0 || x.gauge() != 0 || len(w.told()) > 0 || len(w.activations) > 0 {
				t.Errorf("reads %d, checks %d, gauge %v, events %q", w.store.reads, w.gated, x.gauge(), w.told())
			}
			w.add("b", bootstrapState())
			x.Wake()
			w.pass(time.Second)
			if got := w.pods["b-uid"].applies; got != 1 {
				t.Errorf("%d applies to the new pod a second after its discovery, want 1", got)
			}
		})
	})
}

func TestAFleetOfBootstrapPodsGoesByTheReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		for i := range 100 {
			w.add(fmt.Sprintf("pod-%d", i), bootstrapState()).delay = time.Second
		}
		w.during(t, func(x *term) {
			w.pass(10 * time.Second)
			reads := 0
			for _, p := range w.pods {
				reads += p.reads
				if p.applies != 1 {
					t.Errorf("%s had %d applies, want 1", p.Name, p.applies)
				}
			}
			// Each guard read the fleet, but those that waited together shared it.
			if reads > 100*20 {
				t.Errorf("%d states were read for 100 pods", reads)
			}
		})
	})
}

func TestARejectedPodIsReportedAndNotTriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		bad, good := w.add("bad", bootstrapState()), w.add("good", bootstrapState())
		bad.end = &RejectedError{Message: "cannot bind socket, password hunter22"}
		w.during(t, func(x *term) {
			w.pass(rejectPause - time.Second)
			if bad.applies != 1 || good.applies != 1 {
				t.Errorf("applies %d and %d within the pause, want 1 and 1", bad.applies, good.applies)
			}
			told := strings.Join(w.told(), "\n")
			if !strings.Contains(told, "PodRejected: pod bad: expected its HAProxy to load the checkpoint, found: cannot bind socket, password [redacted]") {
				t.Errorf("events %q do not tell of the rejection, or tell too much", told)
			}
			if !strings.Contains(w.health, "PodRejected") {
				t.Errorf("health = %q, want it to tell of the rejection", w.health)
			}
			w.pass(5 * time.Second)
			if bad.applies != 2 {
				t.Errorf("%d applies after the pause, want 2", bad.applies)
			}
			if got := strings.Count(strings.Join(w.told(), "\n"), "PodRejected"); got != 1 {
				t.Errorf("the same rejection was told %d times, want once", got)
			}
			// A container that was started anew is worth another try at once.
			w.with(func() { bad.end, bad.Pod.Incarnation = nil, "2" })
			x.Wake()
			w.pass(time.Second)
			if bad.applies != 3 {
				t.Errorf("%d applies after a restart, want 3", bad.applies)
			}
		})
	})
}

func TestAnUnknownEndIsToldAndThePodLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		fresh := w.add("new", bootstrapState())
		fresh.end = &UnresolvedError{Err: errors.New("connection reset")}
		w.during(t, func(x *term) {
			w.pass(time.Second)
			if !strings.Contains(strings.Join(w.told(), "\n"), "PodNotStarted: pod new: expected an answer to its start, found connection reset") {
				t.Errorf("events = %q, want the unknown end", w.told())
			}
			// It had taken the output after all.
			w.with(func() { fresh.state, fresh.end = configuredState(t, one), nil })
			w.pass(time.Minute)
			if fresh.applies != 1 {
				t.Errorf("%d applies, want 1: a configured pod receives nothing", fresh.applies)
			}
		})
	})
}

func TestAPodThatOutranksTheTermIsReclaimed(t *testing.T) {
	for _, tc := range []struct {
		name      string
		err       error
		announced []uint64
		event     bool
	}{
		{name: "and started with the higher epoch", announced: []uint64{10}},
		{name: "unless its epoch is absurd", err: fencing.ErrEpochJump, event: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, publish(t, site(t, "one")))
				w.reclaimErr = tc.err
				fresh := w.add("new", bootstrapState())
				fresh.end = &OutrankedError{Floor: 9}
				w.during(t, func(x *term) {
					w.pass(400 * time.Millisecond)
					if diff := cmp.Diff(tc.announced, w.announced); diff != "" {
						t.Errorf("announced epochs (-want +got):\n%s", diff)
					}
					if got := strings.Contains(strings.Join(w.told(), "\n"), "EpochOutranked"); got != tc.event {
						t.Errorf("events = %q, want one of the epoch: %v", w.told(), tc.event)
					}
					w.with(func() { fresh.end = nil })
					w.pass(10 * time.Second)
					if fresh.applies != 2 {
						t.Errorf("%d applies, want 2", fresh.applies)
					}
				})
			})
		})
	}
}

func TestANewPodDuringRecoveryIsStartedBesideASlowOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		slow := w.add("slow", bootstrapState())
		slow.delay = 8 * time.Second
		w.during(t, func(x *term) {
			w.pass(time.Second)
			fresh := w.add("fresh", bootstrapState())
			x.Wake()
			w.pass(time.Second)
			if fresh.applies != 1 || slow.applies != 0 {
				t.Errorf("applies of fresh and slow: %d and %d, want 1 and 0 yet", fresh.applies, slow.applies)
			}
			w.pass(10 * time.Second)
			if slow.applies != 1 || len(w.told()) != 1 {
				t.Errorf("%d applies of slow, events %q, want 1 and one event", slow.applies, w.told())
			}
			// One that is too slow to be left out holds up others, but nobody is
			// told to delete it.
			stuck := w.add("stuck", bootstrapState())
			w.with(func() { stuck.delay = time.Minute })
			x.Wake()
			w.pass(time.Second)
			w.with(func() { stuck.err = errSilent })
			w.pass(15 * time.Second)
			late := w.add("late", bootstrapState())
			x.Wake()
			w.pass(15 * time.Second)
			if late.applies != 0 || len(w.told()) != 1 || !strings.Contains(w.health, "PodStarting: pod stuck") {
				t.Errorf("%d applies of late, events %q, health %q", late.applies, w.told(), w.health)
			}
		})
	})
}

func TestAPodThatIsStartingDelaysNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		fresh, late := w.add("fresh", bootstrapState()), w.add("late", bootstrapState())
		late.err = errors.New("connection refused")
		w.during(t, func(x *term) {
			w.pass(3 * time.Second)
			if fresh.applies != 0 || !strings.Contains(w.health, "PodStarting") || len(w.told()) > 0 {
				t.Errorf("%d applies, health %q, events %q, want none before every pod answers", fresh.applies, w.health, w.told())
			}
			w.with(func() { late.err = nil })
			w.pass(time.Second)
			if fresh.applies != 1 || late.applies != 1 {
				t.Errorf("applies %d and %d a second after the pod answered, want 1 and 1", fresh.applies, late.applies)
			}
		})
	})
}

func TestAnotherTermGoesOnWhereOneWasStopped(t *testing.T) {
	// The term ends at each of its steps in turn.
	for at := range 40 {
		synctest.Test(t, func(t *testing.T) {
			one := site(t, "one")
			w := newWorld(t, publish(t, one))
			a := w.add("a", configuredState(t, one))
			b, c := w.add("b", bootstrapState()), w.add("c", bootstrapState())
			b.delay, c.delay = 50*time.Millisecond, 150*time.Millisecond
			first := w.begin()
			first.Blocked("RenderFailed", "x")
			w.pass(time.Duration(at) * 10 * time.Millisecond)
			first.stop()
			if first.gauge() != 0 {
				t.Errorf("gauge %v after the term, want 0", first.gauge())
			}
			w.during(t, func(x *term) {
				w.pass(5 * time.Second)
				if diff := cmp.Diff([]int{0, 1, 1}, []int{a.applies, b.applies, c.applies}); diff != "" {
					t.Errorf("applies of a, b, c after an end at step %d (-want +got):\n%s", at, diff)
				}
			})
		})
	}
}

func TestAMarkThatCannotBeWrittenCostsNoCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		w.activateErr = errors.New("quota")
		fresh := w.add("new", bootstrapState())
		w.during(t, func(x *term) {
			w.pass(time.Second)
			if fresh.applies != 1 || x.gauge() != 1 {
				t.Errorf("%d applies, gauge %v, want 1 and 1", fresh.applies, x.gauge())
			}
		})
	})
}

// TestAMarkThatFailedIsSetLater: nothing else would set it, once every pod runs.
func TestAMarkThatFailedIsSetLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		a := w.add("a", bootstrapState())
		w.activateErr = errors.New("the API server does not answer")
		w.during(t, func(*term) {
			w.pass(time.Minute)
			if a.applies != 1 || len(w.activations) != 0 {
				t.Fatalf("%d applies and %d marks, want 1 and none yet", a.applies, len(w.activations))
			}
			w.with(func() { w.activateErr = nil })
			w.pass(time.Minute)
			if len(w.activations) != 1 || w.activations[0].Checksum != one.Checksum() {
				t.Errorf("marks %v, want one of %s", w.activations, one.Checksum())
			}
		})
	})
}

func TestTwoPodsGetOneMarkAndOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		w.add("a", bootstrapState())
		w.during(t, func(x *term) {
			w.pass(time.Minute)
			w.add("b", bootstrapState())
			w.with(func() { w.excluded = []Excluded{{Name: "c", Why: "it has no address"}} })
			x.Wake()
			w.pass(time.Minute)
			if len(w.activations) != 1 || len(w.told()) != 1 {
				t.Errorf("%d writes of the mark and events %q for two pods, want one of each", len(w.activations), w.told())
			}
		})
	})
}
