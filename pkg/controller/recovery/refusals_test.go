package recovery

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

func TestNobodyIsStarted(t *testing.T) {
	one, two := site(t, "one"), site(t, "two")
	tests := []struct {
		name  string
		setup func(w *world)
		want  selection.Reason
		// mentions is part of the event's note.
		mentions string
		// quiet is what ends in no event, and later how many other events follow
		// once the next attempt begins with what this one ran into.
		quiet bool
		later int
	}{
		{name: "without an intent", want: selection.ReasonNoIntent, setup: func(w *world) { w.intent = fencing.Intent{UID: web.UID} }},
		{name: "when the intent outran the checkpoint", want: selection.ReasonIntentOutranCheckpoint, mentions: "there is no override",
			setup: func(w *world) { w.intent = intentFor(two) }},
		{name: "when the leases cannot be read", want: selection.ReasonIntentUnreadable,
			setup: func(w *world) { w.leaseErr = errors.New("etcd is down") }},
		{name: "when the store cannot be read", want: selection.ReasonStoreUnreadable, mentions: "forbidden",
			setup: func(w *world) { w.store.err = errors.New("forbidden") }},
		{name: "when a configured pod runs something else", want: selection.ReasonPodOnAnotherPlan, mentions: "pod b",
			setup: func(w *world) { w.add("b", configuredState(w.t, two)) }},
		{name: "when a pod is disowned", want: selection.ReasonPodDisowned, mentions: "pod b", setup: func(w *world) {
			w.add("b", changed(configuredState(w.t, one), func(s *api.State) { s.Phase, s.Plans = api.PhaseDisowned, api.Plans{} }))
		}},
		{name: "when a pod on a dead node does not answer", want: selection.ReasonPodUnreachable,
			mentions: "If its node is dead, delete it: kubectl delete pod b --force",
			setup:    func(w *world) { w.add("b", bootstrapState()).err = errSilent }},
		{name: "when the current HAProxy refuses the checkpoint", want: selection.ReasonGateRefused, mentions: "2.6.12 to accept it, found: unknown keyword 'nbproc'",
			setup: func(w *world) {
				w.verdict = Verdict{Outcome: Refused, Version: "2.6.12", Message: "unknown keyword 'nbproc'"}
			}},
		{name: "when HAProxy gives no verdict", want: selection.ReasonGateUnknown, mentions: "not found",
			setup: func(w *world) { w.verdict = Verdict{Outcome: Unknown, Message: "haproxy: not found"} }},
		{name: "when the gate was taken by a newer output", want: selection.ReasonGateUnknown, quiet: true,
			setup: func(w *world) { w.gateErr = errors.New("a newer output is checked instead") }},
		{name: "when a later intent is recorded before the apply", want: selection.ReasonIntentSuperseded, later: 1,
			setup: func(w *world) { w.atGate = func() { w.with(func() { w.intent = intentFor(two) }) } }},
		{name: "when a pod turns out to run something else before the apply", want: selection.ReasonPodOnAnotherPlan, mentions: "pod a",
			setup: func(w *world) {
				w.atGate = func() { w.with(func() { w.pods["a-uid"].state = configuredState(w.t, two) }) }
			}},
		{name: "when a pod with something else is discovered before the apply", want: selection.ReasonPodOnAnotherPlan, mentions: "pod d",
			setup: func(w *world) { w.atGate = func() { w.add("d", configuredState(w.t, two)) } }},
		{name: "when the leases cannot be read before the apply", want: selection.ReasonIntentUnreadable, later: 1,
			setup: func(w *world) { w.atGate = func() { w.with(func() { w.leaseErr = errors.New("etcd is down") }) } }},
		{name: "when the pod itself was configured before the apply", want: selection.ReasonPodMoved, quiet: true,
			setup: func(w *world) {
				w.atGate = func() { w.with(func() { w.pods["new-uid"].state = configuredState(w.t, one) }) }
			}},
		{name: "when the pod itself is gone before the apply", want: selection.ReasonPodMoved, quiet: true,
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
						return !strings.HasPrefix(event, selection.EventUnavailable)
					})
					if tc.quiet {
						if len(unavailable) > 0 {
							t.Errorf("events of unavailability: %q, want none", unavailable)
						}
						return
					}
					if len(unavailable) != 1+tc.later {
						t.Errorf("%d events of unavailability in a minute, want %d: %q", len(unavailable), 1+tc.later, unavailable)
						return
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
			if fresh.applies != 0 || strings.Contains(strings.Join(w.told(), " "), selection.EventUnavailable) {
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
