package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

func TestAReplacementPodGetsTheIntendedCheckpointAndNobodyElseAnything(t *testing.T) {
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

func TestNobodyIsStarted(t *testing.T) {
	one, two := site(t, "one"), site(t, "two")
	tests := []struct {
		name  string
		setup func(w *world)
		want  Reason
		// mentions is part of the event's note.
		mentions string
		// quiet is what ends in no event, and later how many other events follow
		// once the next attempt begins with what this one ran into.
		quiet bool
		later int
	}{
		{name: "without an intent", want: ReasonNoIntent, setup: func(w *world) { w.intent = fencing.Intent{UID: web.UID} }},
		{name: "when the intent outran the checkpoint", want: ReasonIntentOutranCheckpoint, mentions: "there is no override",
			setup: func(w *world) { w.intent = intentFor(two) }},
		{name: "when the leases cannot be read", want: ReasonIntentUnreadable,
			setup: func(w *world) { w.leaseErr = errors.New("etcd is down") }},
		{name: "when the store cannot be read", want: ReasonStoreUnreadable, mentions: "forbidden",
			setup: func(w *world) { w.store.err = errors.New("forbidden") }},
		{name: "when a configured pod runs something else", want: ReasonPodOnAnotherPlan, mentions: "pod b",
			setup: func(w *world) { w.add("b", configuredState(w.t, two)) }},
		{name: "when a pod is disowned", want: ReasonPodDisowned, mentions: "pod b", setup: func(w *world) {
			w.add("b", changed(configuredState(w.t, one), func(s *api.State) { s.Phase, s.Plans = api.PhaseDisowned, api.Plans{} }))
		}},
		{name: "when a pod on a dead node does not answer", want: ReasonPodUnreachable,
			mentions: "If its node is dead, delete it: kubectl delete pod b --force",
			setup:    func(w *world) { w.add("b", bootstrapState()).err = errSilent }},
		{name: "when the current HAProxy refuses the checkpoint", want: ReasonGateRefused, mentions: "2.6.12 to accept it, found: unknown keyword 'nbproc'",
			setup: func(w *world) {
				w.verdict = Verdict{Outcome: Refused, Version: "2.6.12", Message: "unknown keyword 'nbproc'"}
			}},
		{name: "when HAProxy gives no verdict", want: ReasonGateUnknown, mentions: "not found",
			setup: func(w *world) { w.verdict = Verdict{Outcome: Unknown, Message: "haproxy: not found"} }},
		{name: "when the gate was taken by a newer output", want: ReasonGateUnknown, quiet: true,
			setup: func(w *world) { w.gateErr = errors.New("a newer output is checked instead") }},
		{name: "when a later intent is recorded before the apply", want: ReasonIntentSuperseded, later: 1,
			setup: func(w *world) { w.atGate = func() { w.with(func() { w.intent = intentFor(two) }) } }},
		{name: "when a pod turns out to run something else before the apply", want: ReasonPodOnAnotherPlan, mentions: "pod a",
			setup: func(w *world) {
				w.atGate = func() { w.with(func() { w.pods["a-uid"].state = configuredState(w.t, two) }) }
			}},
		{name: "when a pod with something else is discovered before the apply", want: ReasonPodOnAnotherPlan, mentions: "pod d",
			setup: func(w *world) { w.atGate = func() { w.add("d", configuredState(w.t, two)) } }},
		{name: "when the leases cannot be read before the apply", want: ReasonIntentUnreadable, later: 1,
			setup: func(w *world) { w.atGate = func() { w.with(func() { w.leaseErr = errors.New("etcd is down") }) } }},
		{name: "when the pod itself was configured before the apply", want: ReasonPodMoved, quiet: true,
			setup: func(w *world) {
				w.atGate = func() { w.with(func() { w.pods["new-uid"].state = configuredState(w.t, one) }) }
			}},
		{name: "when the pod itself is gone before the apply", want: ReasonPodMoved, quiet: true,
			setup: func(w *world) { w.pods["new-uid"].atGuard = func() { w.remove("new") } }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, publish(t, one))
				w.t = t
				w.add("a", configuredState(t, one))
				fresh := w.add("new", bootstrapState())
				tc.setup(w)
				w.during(t, func(x *term) {
					w.pass(time.Minute)
					if fresh.applies != 0 {
						t.Errorf("%d applies, want none", fresh.applies)
					}
					unavailable := slices.DeleteFunc(w.told(), func(event string) bool {
						return !strings.HasPrefix(event, EventUnavailable)
					})
					if tc.quiet {
						if len(unavailable) > 0 {
							t.Errorf("events of unavailability: %q, want none", unavailable)
						}
						return
					}
					if len(unavailable) != 1+tc.later {
						t.Fatalf("%d events of unavailability in a minute, want %d: %q", len(unavailable), 1+tc.later, unavailable)
					}
					if first := unavailable[0]; !strings.Contains(first, string(tc.want)+": ") || !strings.Contains(first, tc.mentions) {
						t.Errorf("event %q, want %s that mentions %q", first, tc.want, tc.mentions)
					}
					if got := testutil.ToFloat64(x.metrics.Refusals.WithLabelValues(string(tc.want))); got == 0 {
						t.Errorf("no refusal for %s was counted", tc.want)
					}
				})
			})
		})
	}
}

func TestAChangedPointerIsNotUsedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := site(t, "one"), site(t, "two")
		w := newWorld(t, publish(t, one))
		fresh := w.add("new", bootstrapState())
		moved := ordinary(publish(t, two), publish(t, one))
		w.store.onChildren = func() {
			if moved == nil {
				return
			}
			if err := replaceOrdinary(w, moved); err != nil {
				t.Error(err)
			}
			moved = nil
		}
		w.during(t, func(x *term) {
			w.pass(time.Second)
			if events := w.told(); fresh.applies != 0 || len(events) != 1 || !strings.Contains(events[0], "SnapshotChanged") {
				t.Errorf("%d applies and events %q, want none and SnapshotChanged", fresh.applies, events)
			}
			w.pass(DefaultRetry)
			if fresh.applies != 1 {
				t.Errorf("%d applies after the pointers were at rest, want 1", fresh.applies)
			}
		})
	})
}

func TestAnEndedTermStartsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		fresh := w.add("new", bootstrapState())
		w.atGate = func() { w.with(func() { w.fenced = true }) }
		w.during(t, func(x *term) {
			w.pass(time.Minute)
			if fresh.applies != 0 || strings.Contains(strings.Join(w.told(), " "), EventUnavailable) {
				t.Errorf("%d applies, events %q, want none", fresh.applies, w.told())
			}
		})
	})
}

func TestEachApplyAndEachConflictIsGuardedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := site(t, "one"), site(t, "two")
		w := newWorld(t, publish(t, one))
		fresh := w.add("new", bootstrapState())
		fresh.conflicts = 1
		// Between its two guards the fleet changes.
		fresh.beforeApply = func() {
			if fresh.guards == 1 {
				w.add("b", configuredState(t, two))
			}
		}
		w.during(t, func(x *term) {
			w.pass(time.Second)
			if fresh.guards != 2 || fresh.applies != 0 || !strings.Contains(w.health, "PodOnAnotherPlan: pod b") {
				t.Errorf("%d guards, %d applies, health %q, want 2, 0 and pod b", fresh.guards, fresh.applies, w.health)
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

func TestCancelWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		slow := w.add("slow", bootstrapState())
		slow.delay = 30 * time.Second
		w.during(t, func(x *term) {
			w.pass(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := x.Cancel(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Cancel() = %v with an apply under way, want the end of its time", err)
			}
			began := time.Now()
			if err := x.Cancel(context.Background()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); slow.applies != 1 || took < 20*time.Second {
				t.Errorf("Cancel() returned after %v with %d applies, want it to wait for the apply", took, slow.applies)
			}
			fresh := w.add("fresh", bootstrapState())
			x.Blocked("RenderFailed", "again")
			x.Wake()
			w.pass(5 * time.Minute)
			if fresh.applies != 0 || fresh.reads != 0 {
				t.Errorf("%d applies and %d reads after Cancel, want none", fresh.applies, fresh.reads)
			}
		})
	})
}

func TestNobodyWaitsForAPodThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		w.add("lost", bootstrapState()).delay = time.Hour
		w.during(t, func(x *term) {
			w.pass(time.Second)
			ended := make(chan error)
			go func() { ended <- x.Cancel(context.Background()) }()
			w.pass(time.Minute)
			select {
			case err := <-ended:
				t.Errorf("Cancel() = %v while the pod was there and silent, want it to wait", err)
			default:
			}
			w.remove("lost")
			x.Wake()
			w.pass(time.Second)
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("Cancel() still waits a second after the pod went away")
			}
		})
	})
}

func TestCancelKeepsAStartFromBeginning(t *testing.T) {
	one := site(t, "one")
	for name, place := range map[string]func(w *world, cancel func()){
		"while the store is read":   func(w *world, cancel func()) { w.store.onChildren = cancel },
		"while HAProxy checks":      func(w *world, cancel func()) { w.atGate = cancel },
		"right ahead of the guard":  func(w *world, cancel func()) { w.pods["new-uid"].atGuard = cancel },
		"while the fleet is silent": func(w *world, cancel func()) { w.pods["a-uid"].err = errSilent; go cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, publish(t, one))
				w.add("a", configuredState(t, one))
				fresh := w.add("new", bootstrapState())
				x := w.begin()
				synctest.Wait()
				began := time.Now()
				place(w, func() {
					if err := x.Cancel(context.Background()); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("Cancel() took %v with nothing under way", took)
					}
				})
				x.Blocked("RenderFailed", "x")
				w.pass(time.Minute)
				if fresh.applies != 0 || w.health != "" {
					t.Errorf("%d applies, health %q after Cancel, want none", fresh.applies, w.health)
				}
				x.stop()
			})
		})
	}
}

func TestTheMarksOfRecoveryStayUntilARenderConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		w.add("new", bootstrapState())
		w.during(t, func(x *term) {
			w.pass(time.Second)
			if err := x.Cancel(context.Background()); err != nil {
				t.Error(err)
			}
			w.pass(10 * time.Minute)
			if x.gauge() != 1 || w.intent.Active == nil {
				t.Errorf("gauge %v, mark %v after Cancel, want both to stay", x.gauge(), w.intent.Active)
			}
			w.with(func() { w.activateErr = errors.New("etcd is down") })
			x.Converged()
			w.pass(time.Second)
			if x.gauge() != 0 || w.intent.Active == nil {
				t.Errorf("gauge %v, mark %v after convergence, want 0, and the mark still there", x.gauge(), w.intent.Active)
			}
			w.with(func() { w.activateErr = nil })
			w.pass(DefaultRetry)
			if w.intent.Active != nil {
				t.Errorf("mark %v after the API server answered again, want none", w.intent.Active)
			}
			w.pass(time.Hour)
			if len(w.activations) != 2 {
				t.Errorf("%d writes of the mark, want 2", len(w.activations))
			}
		})
	})
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

func TestAnotherRenderErrorIsAnotherNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		w.intent = fencing.Intent{UID: web.UID}
		w.add("new", bootstrapState())
		w.during(t, func(x *term) {
			w.pass(time.Minute)
			x.Blocked("GateRefused", "unknown keyword")
			w.pass(time.Minute)
			x.Blocked("GateRefused", "unknown keyword")
			w.pass(time.Minute)
			if got := w.told(); len(got) != 2 || !strings.Contains(got[1], "GateRefused: unknown keyword") {
				t.Errorf("events = %q, want one for each render error", got)
			}
		})
	})
}
