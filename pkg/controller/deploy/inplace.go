package deploy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const (
	// maxKnownPlans bounds the plans that are kept to start from. A fleet is at
	// one or two at a time; what is missing is read from a pod again.
	maxKnownPlans = 4
	// fetchTimeout bounds one read of a pod's plan. A reload does as well.
	fetchTimeout = 3 * time.Second
)

// composer finds the operations that bring pods to a candidate without a reload.
type composer struct {
	agents Agents
	// fetching is held while a plan is read, so that a fleet's worth of pods at
	// one plan does not send it a hundred times.
	fetching chan struct{}

	mu    sync.Mutex
	plans map[string]*plan.Plan // by proof
	order []string              // of plans, the oldest first
	// done are the compositions for one candidate, by the proof of the plan that
	// they start from.
	target string
	done   map[string]composed
}

// composed is what came of one pair of plans.
type composed struct {
	ops []plan.Operation
	ok  bool
}

func newComposer(agents Agents) *composer {
	return &composer{agents: agents, fetching: make(chan struct{}, 1), plans: map[string]*plan.Plan{}}
}

// remember keeps a plan that pods may be at later.
func (c *composer) remember(proof string, p *plan.Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plans[proof] != nil {
		return
	}
	c.plans[proof] = p
	if c.order = append(c.order, proof); len(c.order) > maxKnownPlans {
		delete(c.plans, c.order[0])
		c.order = c.order[1:]
	}
}

func (c *composer) known(proof string) *plan.Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans[proof]
}

// extend adds operations to an apply for a pod that runs another plan, if they
// cover the difference and the pod's agent has them. Without them it reloads,
// which is always right, so that nothing here is an error.
func (c *composer) extend(ctx context.Context, target client.Target, at *api.State, candidate *Candidate, m *api.Manifest) {
	if !runsApplied(at) || at.AppliedPlanProof == candidate.proof || !at.CanDo(nil) {
		return
	}
	from := c.known(at.AppliedPlanProof)
	if from == nil {
		var err error
		if from, err = c.fetch(ctx, target, at); err != nil {
			klog.FromContext(ctx).V(2).Info("Could not read the plan that a pod is at", "pod", target.PodName, "err", err)
			return
		}
	}
	ops, ok := c.compose(at.AppliedPlanProof, from, candidate)
	if !ok || !at.CanDo(ops) {
		return
	}
	extended := *m
	extended.InPlaceOps, extended.Ops = true, ops
	if err := extended.Validate(); err != nil {
		klog.FromContext(ctx).V(2).Info("Composed what no agent takes", "plan", candidate.Output.Plan.ID, "err", err)
		return
	}
	*m = extended
}

// runsApplied reports that the pod's worker is known to be at its applied plan.
func runsApplied(s *api.State) bool {
	return s.AppliedPlanID != "" && s.Phase == api.PhaseConfigured && s.WorkerStatus == api.WorkerOwned &&
		s.InvariantViolation == "" && s.ReloadPendingAt == nil && atPlan(s, s.AppliedPlanID, s.AppliedPlanProof)
}

// atPlan reports that the worker was loaded with a plan and not changed since, or
// was brought to it by operations.
func atPlan(s *api.State, id, proof string) bool {
	if s.WorkerOpsPlanID != "" {
		return s.WorkerOpsPlanID == id && s.WorkerOpsPlanProof == proof && s.RunningPlanID != ""
	}
	return s.RunningPlanID == id && s.RunningPlanProof == proof
}

// compose is done once for all pods at one plan.
func (c *composer) compose(proof string, from *plan.Plan, candidate *Candidate) ([]plan.Operation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.target != candidate.proof {
		c.target, c.done = candidate.proof, map[string]composed{}
	}
	found, ok := c.done[proof]
	if !ok {
		found.ops, found.ok = plan.Compose(from, candidate.Output.Plan)
		c.done[proof] = found
	}
	return found.ops, found.ok
}

// fetch reads the plan that a pod stores. Its proof tells that it is the one.
func (c *composer) fetch(ctx context.Context, target client.Target, at *api.State) (*plan.Plan, error) {
	if !at.AppliedPlanStored {
		return nil, fmt.Errorf("the pod lost it")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	select {
	case c.fetching <- struct{}{}:
		defer func() { <-c.fetching }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if from := c.known(at.AppliedPlanProof); from != nil {
		return from, nil // another pod's was read meanwhile
	}
	state, err := c.agents.State(ctx, target, client.StateOptions{})
	if err != nil {
		return nil, err
	}
	if api.PlanProof(state.AppliedPlan) != at.AppliedPlanProof {
		return nil, fmt.Errorf("the pod moved on")
	}
	decoded, err := plan.Decode(state.AppliedPlan)
	if err != nil {
		return nil, fmt.Errorf("decoding plan %s: %w", at.AppliedPlanID, err)
	}
	if decoded.Plan.ID != decoded.ComputedID || len(decoded.UnknownMembers) > 0 || len(decoded.NonCanonical) > 0 {
		return nil, fmt.Errorf("plan %s holds what is not understood here", at.AppliedPlanID)
	}
	c.remember(at.AppliedPlanProof, decoded.Plan)
	return decoded.Plan, nil
}
