package deploy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

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

// ADR-0033: a paced reload confirms the worker's receipt only on the follow-up.
func TestSchedulerDrainFollowsUpThePendingReloadAndDispatchesNoNewerPlan(t *testing.T) {
	f := newFleet("a", "b")
	f.agent("a").schedule = 5 * time.Second
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		first := candidate(t, 1, "one")
		d.Dispatch(first)
		synctest.Wait()
		if diff := cmp.Diff(map[string]string{"a": "scheduled", "b": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("reports before the drain (-want +got):\n%s", diff)
		}
		d.Dispatch(candidate(t, 2, "two"))
		started := time.Now()
		if err := d.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("Drain() took %s, want the 5 s of the scheduled reload and little more", took)
		}
		if diff := cmp.Diff(map[string]string{"a": "reload receipt", "b": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("reports at the end of the drain (-want +got):\n%s", diff)
		}
		pass(10 * time.Minute)
		if diff := cmp.Diff([]string{first.Output.Plan.ID}, f.intents()); diff != "" {
			t.Errorf("intents (-want +got):\n%s", diff)
		}
		if applies := f.agent("a").count(); applies != 1 {
			t.Errorf("%d applies, want 1", applies)
		}
	})
}

func TestDrainReportsAScheduledReloadThatFailed(t *testing.T) {
	f := newFleet("a")
	f.agent("a").schedule, f.agent("a").refuseLater = 5*time.Second, "cannot bind socket"
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		synctest.Wait()
		if err := d.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a": "rejected: rejected at stage reload: cannot bind socket"}
		if diff := cmp.Diff(want, f.entries()); diff != "" {
			t.Errorf("reports at the end of the drain (-want +got):\n%s", diff)
		}
	})
}
