package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// pacedPod loads "one" at once, so that whatever follows within the interval is
// scheduled.
func pacedPod(t *testing.T, pace time.Duration) *pod {
	t.Helper()
	p := layPod(t)
	p.pace = pace
	p.startHAProxy()
	p.startAgent()
	p.mustLoad(p.output("one"))
	return p
}

func (p *pod) settled() *api.State {
	p.t.Helper()
	eventually(p.t, "the end of the scheduled reload", func() bool { return p.state(false).ReloadPendingAt == nil })
	return p.state(true)
}

// mustSchedule applies an output that has to wait.
func (p *pod) mustSchedule(o output) *api.Result {
	p.t.Helper()
	result := p.apply(o)
	if !result.OK || result.Mode != api.OutcomeScheduled || result.ReloadPendingAt == nil {
		p.t.Fatalf("apply ended as %s, want a scheduled one: %+v", result.Mode, result)
	}
	return result
}

// TestScheduledReload: an apply that comes too soon is taken at once, and the
// newest of those that came is what the one reload at the end loads.
func TestScheduledReload(t *testing.T) {
	t.Parallel()
	p := pacedPod(t, 2*time.Second)
	first := p.state(true)
	began := time.Now()
	second := p.mustSchedule(p.output("two"))
	if took := time.Since(began); took > p.pace/2 {
		t.Errorf("the answer took %s", took)
	}
	want := api.Plans{
		AppliedPlanID: second.PlanID, AppliedPlanProof: second.AppliedPlanProof,
		RunningPlanID: first.RunningPlanID, RunningPlanProof: first.RunningPlanProof,
		LKGPlanID: first.LKGPlanID, LKGPlanProof: first.LKGPlanProof,
	}
	if diff := cmp.Diff(want, second.Plans); diff != "" {
		t.Errorf("plans of the scheduled apply (-want +got):\n%s", diff)
	}
	state := p.state(true)
	if diff := cmp.Diff(want, state.Plans); diff != "" || !state.AppliedPlanStored || state.InvariantViolation != "" || state.Phase != api.PhaseConfigured {
		t.Errorf("state while scheduled: %+v (-want +got):\n%s", state, diff)
	}
	third := p.mustSchedule(p.output("three").with("a.map", "a b\n"))
	if !third.ReloadPendingAt.Equal(*second.ReloadPendingAt) {
		t.Errorf("a newer apply moved the reload from %s to %s", second.ReloadPendingAt, third.ReloadPendingAt)
	}
	if p.served() != "one" {
		t.Errorf("frontend serves %q before the reload", p.served())
	}
	state = p.settled()
	if early := time.Until(*third.ReloadPendingAt); early > 0 {
		t.Errorf("the reload came %s early", early)
	}
	if p.served() != "three" || state.RunningPlanID != third.PlanID || state.AppliedToken != third.AppliedToken {
		t.Errorf("serves %q, state %+v", p.served(), state)
	}
	if last := state.LastApply; last.Mode != api.OutcomeReload || last.PlanID != third.PlanID || last.HAProxy != state.HAProxy || last.HAProxy == first.HAProxy {
		t.Errorf("last apply: %+v", last)
	}
	if state.Generation != first.Generation+1 {
		t.Errorf("generation %d after one reload, was %d", state.Generation, first.Generation)
	}
}

// TestScheduledReloadRepeats: the same manifest, and the same output under a
// newer token, change nothing about what is scheduled.
func TestScheduledReloadRepeats(t *testing.T) {
	t.Parallel()
	p := pacedPod(t, 3*time.Second)
	request := p.request(p.output("two"))
	first, err := p.client.Apply(t.Context(), p.target, request)
	must(t, err)
	again, err := p.client.Apply(t.Context(), p.target, request)
	must(t, err)
	if diff := cmp.Diff(first, again); diff != "" || first.Mode != api.OutcomeScheduled {
		t.Errorf("repeat of a scheduled apply (-first +again):\n%s", diff)
	}
	newer := p.mustSchedule(p.output("two"))
	if newer.AppliedToken == first.AppliedToken || !newer.ReloadPendingAt.Equal(*first.ReloadPendingAt) {
		t.Errorf("the same output under a newer token: %+v", newer)
	}
	p.settled()
	p.seq++ // not the newest request, so its token is behind by now
	_, err = p.client.Apply(t.Context(), p.target, request)
	wantConflict(t, err, api.ReasonStaleEpoch)
}

// TestScheduledReloadFails: the set before is the pod's again, and nothing of
// the refused one is left.
func TestScheduledReloadFails(t *testing.T) {
	t.Parallel()
	p := pacedPod(t, time.Second)
	before := p.state(true)
	bad := output{api.ConfigPath: p.output("two")[api.ConfigPath] + "    no-such-keyword\n"}
	scheduled := p.mustSchedule(bad)
	state := p.settled()
	if diff := cmp.Diff(before.Plans, state.Plans); diff != "" || state.AppliedToken != before.AppliedToken || p.served() != "one" {
		t.Errorf("after the refusal it serves %q (-before +after):\n%s", p.served(), diff)
	}
	last := state.LastApply
	if last.OK || last.Mode != api.OutcomeRejected || last.PlanID != scheduled.PlanID || !last.Rollback || last.Error.Stage != api.StageReload {
		t.Errorf("last apply: %+v", last)
	}
	p.checkNoLeftovers("after the refusal")
}

// TestRevertCallsOffAScheduledReload: an output that no worker has loaded is
// left without a reload, on a bootstrap pod as well.
func TestRevertCallsOffAScheduledReload(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("bootstrap pod: %t", fresh), func(t *testing.T) {
			p := layPod(t)
			p.pace = time.Minute
			p.startHAProxy()
			p.startAgent()
			if fresh {
				p.apply(output{api.ConfigPath: "nonsense\n"})
			} else {
				p.mustLoad(p.output("one"))
			}
			before := p.state(true)
			p.mustSchedule(p.output("two"))
			if p.state(true).IsBootstrap() {
				t.Errorf("a pod that carries an output counts as a bootstrap pod")
			}
			result, err := p.client.Apply(t.Context(), p.target, p.revertOf(p.output("two")))
			if err != nil || result.Mode != api.OutcomeFileOnly || !result.Rollback || result.HAProxy != before.HAProxy {
				t.Fatalf("revert: %+v, %v", result, err)
			}
			state := p.state(true)
			if diff := cmp.Diff(before.Plans, state.Plans); diff != "" || state.ReloadPendingAt != nil || state.IsBootstrap() != fresh {
				t.Errorf("after the revert, bootstrap %t (-before +after):\n%s", state.IsBootstrap(), diff)
			}
			_, err = p.client.Apply(t.Context(), p.target, p.revertOf(p.output("two")))
			wantConflict(t, err, api.ReasonRevertTargetMismatch)
		})
	}
}

func (p *pod) revertOf(o output) client.ApplyRequest {
	revert := p.request(o)
	revert.Manifest.Mode, revert.Manifest.Files, revert.Plan = api.ModeRevertLKG, nil, nil
	return revert
}

// TestLaterTermCallsOffAScheduledReload: a pod that heard of a term loads
// nothing from an older one.
func TestLaterTermCallsOffAScheduledReload(t *testing.T) {
	t.Parallel()
	p := pacedPod(t, time.Minute)
	before := p.state(true)
	p.mustSchedule(p.output("two"))
	_, err := p.client.Announce(t.Context(), p.target, 9)
	must(t, err)
	state := p.state(true)
	if diff := cmp.Diff(before.Plans, state.Plans); diff != "" || state.ReloadPendingAt != nil || state.LastApply.Error.Stage != api.StageFenced {
		t.Errorf("after the announcement: %+v (-before +after):\n%s", state, diff)
	}
	p.mustSchedule(p.output("three"))
	// A later term that is only heard of through a refused apply counts too.
	refused := p.request(p.output("four"))
	refused.Manifest.Token.LeaderEpoch, refused.Manifest.ExpectedPrevPlanProof = 12, api.PlanProof(nil)
	_, err = p.client.Apply(t.Context(), p.target, refused)
	wantConflict(t, err, api.ReasonPrevMismatch)
	if state = p.state(true); state.ReloadPendingAt != nil || state.AppliedPlanID != before.AppliedPlanID {
		t.Errorf("after the refused apply of a later term: %+v", state)
	}
}

// TestScheduledReloadOutlivesTheAgent: a new process takes the reload up, and a
// restart of HAProxy before it starts with the set that is proven to run.
func TestScheduledReloadOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	p := pacedPod(t, 3*time.Second)
	scheduled := p.mustSchedule(p.output("two").with("a.map", "a b\n"))
	p.stop()
	p.killHAProxy()
	p.startHAProxy()
	p.startAgent()
	if state := p.state(true); state.ReloadPendingAt == nil || state.AppliedPlanID != scheduled.PlanID || state.WorkerStatus != api.WorkerOwned || p.served() != "one" {
		t.Errorf("after the restarts it serves %q: %+v", p.served(), state)
	}
	if state := p.settled(); state.RunningPlanID != scheduled.PlanID || p.served() != "two" {
		t.Errorf("in the end it serves %q: %+v", p.served(), state)
	}
}
