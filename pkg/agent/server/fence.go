package server

import (
	"fmt"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// conflict is a refusal that is decided but not yet filled with where the pod is.
type conflict struct {
	reason  api.Reason
	message string
}

func (c *conflict) Error() string { return fmt.Sprintf("%s: %s", c.reason, c.message) }

func refuse(reason api.Reason, format string, args ...any) *conflict {
	return &conflict{reason: reason, message: fmt.Sprintf(format, args...)}
}

// address is whom a request is meant for.
type address struct{ podUID, templateUID string }

// checkAddress refuses what was meant for somebody else. A pod that does not
// know its template yet takes the first that is named with an accepted apply.
func checkAddress(meant, actual address) *conflict {
	switch {
	case meant.podUID != actual.podUID:
		return refuse(api.ReasonWrongPod, "this is pod %s, the request is for %q", actual.podUID, meant.podUID)
	case meant.templateUID == "":
		return refuse(api.ReasonWrongTemplate, "the request names no template")
	case actual.templateUID != "" && meant.templateUID != actual.templateUID:
		return refuse(api.ReasonWrongTemplate, "this pod belongs to template %s, the request is for %s",
			actual.templateUID, meant.templateUID)
	}
	return nil
}

// checkEpoch guards against terms that are over and against counters that
// jumped out of reach of every later leader.
func checkEpoch(j *journal, epoch uint64) *conflict {
	floor := j.Fence.LeaderEpoch
	switch {
	case epoch < floor:
		return refuse(api.ReasonStaleEpoch, "epoch %d is below the floor %d", epoch, floor)
	case epoch-floor > api.MaxEpochJump:
		return refuse(api.ReasonEpochJump, "epoch %d lies more than %d above %d", epoch, api.MaxEpochJump, floor)
	}
	return nil
}

// checkFence decides whether whoever sent the manifest may still act here.
func checkFence(j *journal, m *api.Manifest) *conflict {
	if c := checkEpoch(j, m.Token.LeaderEpoch); c != nil {
		return c
	}
	if m.Token.Before(j.Fence) {
		return refuse(api.ReasonStaleEpoch, "token %d/%d lies before %d/%d",
			m.Token.LeaderEpoch, m.Token.RenderSeq, j.Fence.LeaderEpoch, j.Fence.RenderSeq)
	}
	// A revert names the plan it leaves, not one it brings.
	if m.Token == j.Fence && j.FencePlan.ID != "" && m.Mode != api.ModeRevertLKG && j.FencePlan != planOf(m) {
		return refuse(api.ReasonTokenReused, "token %d/%d already named plan %s",
			m.Token.LeaderEpoch, m.Token.RenderSeq, j.FencePlan.ID)
	}
	return nil
}

func planOf(m *api.Manifest) planRef { return planRef{ID: m.PlanID, Proof: m.PlanProof} }

// standing is where a pod is, as far as an apply is concerned.
type standing struct {
	phase   api.Phase
	applied planRef
	token   api.Token
}

// checkBaseline makes every apply a compare-and-swap.
func checkBaseline(at standing, m *api.Manifest) *conflict {
	expected := planRef{ID: m.ExpectedPrevPlanID, Proof: m.ExpectedPrevPlanProof}
	switch {
	case m.ExpectedPhase != "" && m.ExpectedPhase != at.phase:
		return refuse(api.ReasonPhaseMismatch, "this pod is %s, expected is %s", at.phase, m.ExpectedPhase)
	case m.Mode == api.ModeRevertLKG:
		return nil // the plan to leave is its own expectation
	case expected != at.applied && at.applied.ID == "":
		return refuse(api.ReasonUnknownBaseline, "plan %s is expected and this pod knows of none", expected.ID)
	case expected != at.applied:
		return refuse(api.ReasonPrevMismatch, "plan %q is expected, applied is %s", expected.ID, at.applied.ID)
	case m.ExpectedPrevToken != at.token:
		return refuse(api.ReasonPrevMismatch, "token %d/%d is expected, applied is %d/%d",
			m.ExpectedPrevToken.LeaderEpoch, m.ExpectedPrevToken.RenderSeq, at.token.LeaderEpoch, at.token.RenderSeq)
	}
	return nil
}

// raiseFence records what was let through, before anything is done about it.
// It reports whether the journal changed.
func raiseFence(j *journal, m *api.Manifest) bool {
	before, planBefore := j.Fence, j.FencePlan
	switch {
	case m.Mode != api.ModeRevertLKG:
		j.FencePlan = planOf(m)
	case m.Token != j.Fence:
		j.FencePlan = planRef{}
	}
	j.Fence = m.Token
	return before != j.Fence || planBefore != j.FencePlan
}
