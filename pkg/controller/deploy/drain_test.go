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
