package deploy

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

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
		_, err := d.bring(t.Context(), stale, candidate(t, 1, "one"), false)
		if err == nil || !strings.Contains(err.Error(), string(api.ReasonWrongPod)) {
			t.Errorf("bring() error = %v, want %s", err, api.ReasonWrongPod)
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

// Agents cannot tell two terms of one epoch apart. That happens when both Leases
// were lost, and the one that comes later must leave the number behind.
func TestAnEpochThatAnotherTermUsedIsLeft(t *testing.T) {
	f := newFleet("a")
	f.agent("a").fence = api.Token{LeaderEpoch: f.epoch, RenderSeq: 9}
	inTerm(t, f, func(t *testing.T, d *Deployer) {
		d.Dispatch(candidate(t, 1, "one"))
		pass(2 * firstRetry)
		if diff := cmp.Diff([]uint64{7}, f.reclaims); diff != "" {
			t.Errorf("reclaims (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"a": "reload receipt"}, f.entries()); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
	})
}
