package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// maxAttempts bounds how often a pod that moved meanwhile is read again within
// one deployment.
const maxAttempts = 3

// Pod is one discovered proxy pod.
type Pod struct {
	Name, UID string
	// Address is host:port of the agent.
	Address string
	// Incarnation changes when a container of the pod was started anew.
	Incarnation string
}

// RejectedError says that HAProxy on the pod refused the output, and the pod is
// back at what it had.
type RejectedError struct{ Detail api.ErrorDetail }

func (e *RejectedError) Error() string {
	return fmt.Sprintf("rejected at stage %s: %s", e.Detail.Stage, e.Detail.Message)
}

// outrankedError says that a pod has heard of a later epoch: either our term is
// over, or the counter was lost and must be lifted. Only the Lease can tell.
type outrankedError struct {
	floor uint64
	err   error
}

func (e *outrankedError) Error() string { return e.err.Error() }
func (e *outrankedError) Unwrap() error { return e.err }

// pendingError says that the pod holds the output and will load it later. It is
// neither a proof nor a failure.
type pendingError struct {
	at    time.Time
	entry checkpoint.PodEntry
}

func (e *pendingError) Error() string {
	return "the reload is scheduled for " + e.at.Format(time.RFC3339Nano)
}

// bring takes one pod to the output and returns its proof of running it. With
// scheduled, the pod said before that it would load the output.
func (d *Deployer) bring(ctx context.Context, pod Pod, c *Candidate, scheduled bool) (checkpoint.PodEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, d.settings.Timeout)
	defer cancel()
	target := d.target(pod)
	var last error
	left := false
	for range maxAttempts {
		state, err := d.agents.State(ctx, target, client.StateOptions{Verify: true, WithoutPlan: true})
		if err != nil {
			return checkpoint.PodEntry{}, errors.Join(last, err)
		}
		if c.runsOn(state) {
			return d.proven(pod, c, account{Plans: state.Plans, haproxy: state.HAProxy, mode: c.modeOf(state)})
		}
		if at, pending := c.pendingOn(state); pending {
			return checkpoint.PodEntry{}, d.pending(pod, c, account{Plans: state.Plans, haproxy: state.HAProxy}, at)
		}
		if detail, refused := c.refusedBy(state); refused && scheduled {
			return checkpoint.PodEntry{}, &RejectedError{Detail: detail}
		}
		again, err := d.makeWay(ctx, target, c, state)
		if err != nil {
			return checkpoint.PodEntry{}, err
		}
		if again && !left {
			left = true
			continue
		}
		token := api.Token{LeaderEpoch: d.term.Epoch(), RenderSeq: c.Sequence}
		request := c.request(state, token)
		d.composer.extend(ctx, target, state, c, &request.Manifest)
		result, err := d.agents.Apply(ctx, target, request)
		if err == nil {
			return d.judge(pod, c, result)
		}
		if err := d.resolve(ctx, err); err != nil {
			return checkpoint.PodEntry{}, err
		}
		klog.FromContext(ctx).V(2).Info("Apply met a pod that had moved and will be repeated", "pod", pod.Name, "err", err)
		last = err
	}
	return checkpoint.PodEntry{}, fmt.Errorf("gave up after %d attempts: %w", maxAttempts, last)
}

// resolve decides what an apply without result means: nil to read the pod again,
// or why there is no point.
func (d *Deployer) resolve(ctx context.Context, err error) error {
	var unanswered *client.UnansweredError
	if errors.As(err, &unanswered) {
		// It may have been carried out. The state tells.
		return ctx.Err()
	}
	var conflict *client.ConflictError
	if !errors.As(err, &conflict) {
		return err
	}
	switch conflict.Conflict.Reason {
	case api.ReasonPrevMismatch, api.ReasonUnknownBaseline:
		return nil
	case api.ReasonStaleEpoch, api.ReasonTokenReused:
		// At our own epoch it was another term, which had the same number because
		// the counter was lost: this one never goes back behind its own tokens.
		if floor := conflict.Conflict.EpochFloor; floor >= d.term.Epoch() {
			return &outrankedError{floor: floor, err: err}
		}
		return nil
	default:
		return err
	}
}

func (d *Deployer) judge(pod Pod, c *Candidate, result *api.Result) (checkpoint.PodEntry, error) {
	if !result.OK {
		return checkpoint.PodEntry{}, rejection(result)
	}
	said := account{Plans: result.Plans, haproxy: result.HAProxy, mode: result.Mode}
	if result.Mode == api.OutcomeScheduled {
		at := time.Now()
		if result.ReloadPendingAt != nil {
			at = *result.ReloadPendingAt
		}
		return checkpoint.PodEntry{}, d.pending(pod, c, said, at)
	}
	return d.proven(pod, c, said)
}

func rejection(result *api.Result) error {
	detail := api.ErrorDetail{Message: "no reason given"}
	if result.Error != nil {
		detail = *result.Error
	}
	return &RejectedError{Detail: detail}
}

func (d *Deployer) pending(pod Pod, c *Candidate, said account, at time.Time) error {
	said.mode = api.OutcomeScheduled
	return &pendingError{at: at, entry: entryOf(pod, c.Checksum, said)}
}

// proven is the last check of a receipt, by the rule that its readers apply.
func (d *Deployer) proven(pod Pod, c *Candidate, a account) (checkpoint.PodEntry, error) {
	entry := entryOf(pod, c.Checksum, a)
	if !entry.Confirms(c.Checksum, c.Output.Plan.ID) {
		return checkpoint.PodEntry{}, fmt.Errorf("pod %s answered without proof of running plan %s: applied %q, running %q, worker %q",
			pod.Name, c.Output.Plan.ID, entry.AppliedPlanID, entry.RunningPlanID, entry.PodRuntimeID)
	}
	return entry, nil
}

func (d *Deployer) target(pod Pod) client.Target {
	return client.Target{PodName: pod.Name, PodUID: pod.UID, TemplateUID: d.settings.TemplateUID, Address: pod.Address}
}
