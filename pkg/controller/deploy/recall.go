package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// errRecalled ends the deployment of an output that was taken back.
var errRecalled = errors.New("the output was taken back")

// KeptError says that a pod's worker runs an output that was taken back. It is
// left alone: its HAProxy did load that output, and another reload would put
// connections at risk for nothing but tidiness.
type KeptError struct{ PlanID string }

func (e *KeptError) Error() string {
	return fmt.Sprintf("its worker loaded plan %s before that was refused, and keeps it until the next output", e.PlanID)
}

// Instead is the same output once more, later in the order of renders, for the
// pods that were to get the other one. Those that run the other one keep it.
func (c *Candidate) Instead(other *Candidate, sequence uint64) *Candidate {
	again := *c
	again.Sequence, again.instead = sequence, other
	return &again
}

// IsInstead reports that the output came in place of another one, which pods that
// run it keep. What the inputs give is for every pod, even if it is the same.
func (c *Candidate) IsInstead() bool { return c.instead != nil }

// isApplied reports that the pod's applied plan is the output's, loaded or not.
func (c *Candidate) isApplied(s *api.State) bool {
	return s.AppliedPlanID == c.Output.Plan.ID && s.AppliedPlanProof == c.proof
}

// isOnlyCarried reports that the pod has the output and no worker loaded it: its
// reload is still to come, or HAProxy does not run.
func (c *Candidate) isOnlyCarried(s *api.State) bool {
	return c.isApplied(s) && (s.ReloadPendingAt != nil || s.WorkerStatus != api.WorkerOwned)
}

// revertRequest asks a pod to leave the output for what its worker runs.
func (c *Candidate) revertRequest(token api.Token) client.ApplyRequest {
	return client.ApplyRequest{Manifest: api.Manifest{
		IdentityVersion: api.IdentityVersion, PlanSchemaVersion: api.PlanSchemaVersion,
		PlanID: c.Output.Plan.ID, PlanProof: c.proof, Token: token, Mode: api.ModeRevertLKG,
	}}
}

// Recall takes back an output that was dispatched ahead of its verdict: nothing
// more of it is applied, and pods that carry it without having loaded it go back
// to what they ran. back, made by Instead, is what the fleet gets in its place;
// nil if something newer was dispatched already.
func (d *Deployer) Recall(c, back *Candidate) {
	d.mu.Lock()
	d.recalled = append(d.recalled, c)
	if back != nil {
		d.newest = back
	}
	if d.serving == c {
		d.breakOff(errRecalled)
	}
	d.mu.Unlock()
	select {
	case d.recall <- struct{}{}:
	default:
	}
	d.Wake()
}

// beginRound makes the context of one deployment, which a recall ends.
func (d *Deployer) beginRound(ctx context.Context, c *Candidate) (round context.Context, end func()) {
	round, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.recalled, c) {
		cancel(errRecalled)
	}
	d.serving, d.breakOff = c, cancel
	return round, func() {
		d.mu.Lock()
		d.serving, d.breakOff = nil, nil
		d.mu.Unlock()
		cancel(nil)
	}
}

// undo has the pods leave what was recalled since the last time. It does not
// wait for the intent of what comes instead: a reload that is due soon would.
func (d *Deployer) undo(ctx context.Context) {
	d.mu.Lock()
	recalled := d.recalled
	d.mu.Unlock()
	for _, c := range recalled {
		d.revertFleet(ctx, c)
		if d.current == c {
			d.current = nil
		}
	}
	d.mu.Lock()
	d.recalled = d.recalled[len(recalled):]
	d.mu.Unlock()
}

// revertFleet asks all pods at once. One that cannot be asked is met again when
// it is given the next output.
func (d *Deployer) revertFleet(ctx context.Context, c *Candidate) {
	limit := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for _, p := range d.pods {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if d.current == c {
				// It is not to load this any more. A newer output it still is, and
				// a drain waits for that.
				p.scheduled = false
			}
			logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", p.pod.Name, "plan", c.Output.Plan.ID)
			switch left, err := d.revert(ctx, p.pod, c); {
			case err != nil:
				logger.Info("Could not have a pod leave a refused output", "err", cut(c.redact(err.Error())))
			case left:
				logger.Info("Pod left a refused output that it had not loaded")
			}
		})
	}
	wg.Wait()
}

// revert has one pod leave the output if it carries it without having loaded it.
func (d *Deployer) revert(ctx context.Context, pod Pod, c *Candidate) (left bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.settings.Timeout)
	defer cancel()
	target := d.target(pod)
	for range maxAttempts {
		state, err := d.agents.State(ctx, target, client.StateOptions{WithoutPlan: true})
		if err != nil {
			return false, err
		}
		if !c.isOnlyCarried(state) {
			return left, nil
		}
		if left, err = d.leave(ctx, target, c); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("gave up after %d attempts", maxAttempts)
}

// leave sends one revert. The term's own token goes with it: a pod that has heard
// of a later term stays as that term wants it. It is false without an error when
// the pod has to be read again.
func (d *Deployer) leave(ctx context.Context, target client.Target, c *Candidate) (left bool, err error) {
	result, err := d.agents.Apply(ctx, target, c.revertRequest(api.Token{LeaderEpoch: d.term.Epoch(), RenderSeq: c.Sequence}))
	var conflict *client.ConflictError
	switch {
	case err == nil && !result.OK:
		return false, rejection(result)
	case err == nil:
		return true, nil
	case errors.As(err, &conflict) && conflict.Conflict.Reason == api.ReasonRevertTargetMismatch:
		// It has loaded the output by now, or has nothing else to go back to.
		return false, nil
	}
	return false, d.resolve(ctx, err)
}

// makeWay has a pod leave the output that the candidate replaces. An ordinary
// apply would cost it a reload, leaving may cost none. The pod is to be read
// again then.
func (d *Deployer) makeWay(ctx context.Context, target client.Target, c *Candidate, at *api.State) (again bool, err error) {
	other := c.instead
	switch {
	case other == nil || !other.isApplied(at):
		return false, nil
	case other.isOnlyCarried(at):
		_, err := d.leave(ctx, target, other)
		return true, err
	}
	return false, &KeptError{PlanID: other.Output.Plan.ID}
}

// wayBack is the output that comes instead of a recalled one, until it is what
// pods are given.
func (d *Deployer) wayBack() *Candidate {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest == nil || d.newest.instead == nil || d.newest == d.current {
		return nil
	}
	return d.newest
}
