package client

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// looks bounds the looks at a pod whose apply was not answered. A state waits
// behind an apply that is under way, so that the first one tells as a rule.
var looks = wait.Backoff{Duration: tries.Duration, Factor: 2, Steps: 4}

// resolve finds out what became of an apply that was not answered. It sends
// nothing again: whether that may still be done is for the caller to know.
func (c *Client) resolve(ctx context.Context, target Target, request ApplyRequest, cause *UnansweredError) (*api.Result, error) {
	var result *api.Result
	ended := wait.ExponentialBackoffWithContext(ctx, looks, func(ctx context.Context) (bool, error) {
		state, err := c.State(ctx, target, StateOptions{WithoutPlan: true})
		if err != nil {
			cause = &UnansweredError{Pod: cause.Pod, Err: fmt.Errorf("%w, then: %w", cause.Err, err)}
			return false, nil
		}
		result = answerIn(state, request)
		return result != nil, nil
	})
	if ended != nil {
		return nil, cause
	}
	return result, nil
}

// answerIn is the result of this request, if the state shows it and it still
// holds. An older one of the same plan is no answer.
func answerIn(state *api.State, request ApplyRequest) *api.Result {
	last, before, m := state.LastApply, request.Before.LastApply, &request.Manifest
	switch {
	case last == nil || last.PlanID != m.PlanID || before != nil && before.At.Equal(last.At):
		return nil
	case !last.OK:
		return last
	case state.AppliedToken != m.Token || last.AppliedToken != m.Token || last.Plans != state.Plans || last.HAProxy != state.HAProxy:
		return nil // somebody was there in the meantime
	case m.Mode != api.ModeRevertLKG && (state.AppliedPlanID != m.PlanID || state.AppliedPlanProof != m.PlanProof):
		return nil
	}
	return last
}
