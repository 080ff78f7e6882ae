package sim

import (
	"maps"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// admitRevert decides whether a pod may leave a plan: one that it carries and
// that no worker has loaded.
func (a *agent) admitRevert(m *api.Manifest) error {
	switch {
	case m.Token.LeaderEpoch < a.fence.LeaderEpoch, m.Token.Before(a.fence):
		return a.conflict(api.ReasonStaleEpoch)
	case m.Token.LeaderEpoch-a.fence.LeaderEpoch > api.MaxEpochJump:
		return a.conflict(api.ReasonEpochJump)
	case a.state.AppliedPlanID != m.PlanID, a.state.AppliedPlanProof != m.PlanProof, a.state.ReloadPendingAt == nil:
		return a.conflict(api.ReasonRevertTargetMismatch)
	}
	return nil
}

// revert takes a pod back to what its worker runs, or to the bootstrap
// configuration when that is all it has.
func (a *agent) revert(m *api.Manifest) (*api.Result, error) {
	if err := a.admitRevert(m); err != nil {
		return nil, err
	}
	a.fence, a.plan = m.Token, [2]string{m.PlanID, m.PlanProof}
	a.heard = max(a.heard, m.Token.LeaderEpoch)
	s := &a.state
	s.Generation++ // the reload that was put off is off
	s.ReloadPendingAt = nil
	s.AppliedPlanID, s.AppliedPlanProof = s.RunningPlanID, s.RunningPlanProof
	s.AppliedToken, s.Files = m.Token, maps.Clone(a.running)
	if s.AppliedPlanID == "" {
		s.Phase, s.AppliedToken, s.AppliedPlanStored = api.PhaseBootstrap, api.Token{}, false
	}
	result := a.result(m.PlanID, api.OutcomeFileOnly)
	result.Rollback = true
	return result, nil
}
