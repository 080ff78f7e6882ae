package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

const (
	// idlePause is the time until the next look when there is nothing to do.
	// Discovery wakes sooner.
	idlePause = time.Minute
	// quickPause is the time until the next look while a pod that was just
	// discovered is starting.
	quickPause = 500 * time.Millisecond
)

// activation is what this term did about the marks of recovery.
type activation struct {
	used bool
	// checksum is that of the checkpoint in use.
	checksum string
	// mark is what the Lease is to say of it, and marked that it does.
	mark    *fencing.Active
	marked  bool
	retired bool
}

// decision is a checkpoint that may be used, as far as one look can tell.
type decision struct {
	intent fencing.Intent
	choice *selection.Choice
	target Target
}

// errCancelled says that recovery ended while something led up to a start.
var errCancelled = errors.New("recovery was cancelled")

// attempt looks, decides and starts what is due.
func (r *Recovery) attempt(ctx, prep context.Context, cause Cause) time.Duration {
	pods, excluded := r.parts.Fleet.Pods()
	r.remember(pods)
	since := maps.Clone(r.seen)
	fleet := r.look(prep, r.checks.settled(pods, r.settings.Timeout), since)
	if prep.Err() != nil {
		r.metrics.Attempts.WithLabelValues(outcomeCancelled).Inc()
		return idlePause
	}
	split := judgeFleet(fleet, r.settings.Template.UID, nil)
	due, wait := r.due(split.Bootstrap)
	if len(due) == 0 {
		return r.idle(prep, split, wait)
	}
	if f := joined(split.Refusals); f != nil && f.Quiet {
		// Nothing stands in the way but a pod that is starting: its few seconds
		// are not worth reading everything again and again.
		r.metrics.Attempts.WithLabelValues(outcomeRefused).Inc()
		r.refuse(ctx, f, cause, excluded)
		return r.pauseAfter(f)
	}
	d, refusal, err := r.decide(prep, fleet)
	switch {
	case prep.Err() != nil || errors.Is(err, fencing.ErrFenced):
		// A lost term ends by itself.
		r.metrics.Attempts.WithLabelValues(outcomeCancelled).Inc()
		return idlePause
	case refusal != nil:
		r.metrics.Attempts.WithLabelValues(outcomeRefused).Inc()
		r.refuse(ctx, refusal, cause, excluded)
		return r.pauseAfter(refusal)
	}
	if !r.schedule(prep, d, cause, excluded) {
		r.metrics.Attempts.WithLabelValues(outcomeCancelled).Inc()
		return idlePause
	}
	r.metrics.Attempts.WithLabelValues(outcomeScheduled).Inc()
	for _, pod := range due {
		r.launch(ctx, prep, launch{pod: pod, decision: d, since: since})
	}
	return r.settings.Retry
}

// remember keeps what is known of pods to those that are discovered.
func (r *Recovery) remember(pods []Pod) {
	here := make(map[string]Pod, len(pods))
	for _, pod := range pods {
		here[pod.UID] = pod
		if _, known := r.seen[pod.UID]; !known {
			r.seen[pod.UID] = time.Now()
		}
	}
	maps.DeleteFunc(r.seen, func(uid string, _ time.Time) bool { _, ok := here[uid]; return !ok })
	maps.DeleteFunc(r.held, func(uid string, h hold) bool {
		pod, ok := here[uid]
		return !ok || pod.Incarnation != h.incarnation || !time.Now().Before(h.until)
	})
}

// due are the bootstrap pods to start now, and the time until another one is.
func (r *Recovery) due(bootstrap []Pod) (due []Pod, wait time.Duration) {
	wait = idlePause
	for _, pod := range bootstrap {
		h, held := r.held[pod.UID]
		switch {
		case r.flying[pod.UID] != nil:
		case held:
			wait = min(wait, time.Until(h.until))
		default:
			due = append(due, pod)
		}
	}
	return due, wait
}

// idle is an attempt with nothing to start. Pods that may turn out to be
// bootstrap pods are looked at again soon, and so is a Lease that did not take the
// mark.
func (r *Recovery) idle(ctx context.Context, split Split, wait time.Duration) time.Duration {
	if !r.setMark(ctx) {
		wait = min(wait, r.settings.Retry)
	}
	r.metrics.Attempts.WithLabelValues(outcomeIdle).Inc()
	if len(split.Bootstrap) == 0 && len(r.flying) == 0 {
		r.health(r.standing())
	}
	for _, f := range split.Refusals {
		wait = min(wait, r.pauseAfter(f))
	}
	return wait
}

func (r *Recovery) pauseAfter(f *selection.Refusal) time.Duration {
	if f.Quiet {
		return quickPause
	}
	return r.settings.Retry
}

// decide reads what is stored and judges everything that can be judged ahead of
// a start. Storage comes before pods: advice to touch a pod is given only where
// it would help.
func (r *Recovery) decide(ctx context.Context, fleet []Sighting) (*decision, *selection.Refusal, error) {
	callCtx, cancel := context.WithTimeout(ctx, r.settings.Timeout)
	defer cancel()
	intent, err := r.parts.Term.Intent(callCtx)
	switch {
	case errors.Is(err, fencing.ErrFenced):
		return nil, nil, err
	case err != nil:
		return nil, unreadable(ctx, selection.ReasonIntentUnreadable, "leases: expected to read the intent, found", err), nil
	case !intent.HasPlan():
		return nil, selection.Unselected(checkpoint.Selection{Reason: checkpoint.NoIntent}, intent), nil
	}
	snapshot, err := r.collect(ctx, intent)
	if err != nil {
		f := unreadable(ctx, selection.ReasonStoreUnreadable, "stored objects: expected to read them, found", err)
		f.Checksum = intent.Checksum
		return nil, f, nil
	}
	choice, refusal := selection.Choose(r.settings.Template, snapshot, intent)
	if refusal != nil {
		return nil, refusal, nil
	}
	target, err := targetOf(choice.Output)
	if err != nil {
		return nil, &selection.Refusal{Reason: selection.ReasonCheckpointUnknown, Checksum: intent.Checksum,
			Message: fmt.Sprintf("%s/%s: %v", v1alpha1.KindCfg, choice.Name, err), Do: selection.DoFixRendering}, nil
	}
	if f := joined(judgeFleet(fleet, r.settings.Template.UID, &target).Refusals); f != nil {
		return nil, f, nil
	}
	if f := r.check(ctx, choice); f != nil {
		return nil, f, nil
	}
	return &decision{intent: intent, choice: choice, target: target}, nil, nil
}

// unreadable is a refusal after an error of the API server.
func unreadable(ctx context.Context, reason selection.Reason, message string, err error) *selection.Refusal {
	klog.FromContext(ctx).V(2).Info("Did not read what recovery needs", "reason", reason, "err", err)
	return &selection.Refusal{Reason: reason, Message: message + " " + describe(err),
		Do: "See whether the API server answers and what this controller's role allows"}
}

// maxVerdictBytes bounds what HAProxy's answer may take of a note.
const maxVerdictBytes = 400

// check asks HAProxy as it is installed now: an earlier binary's acceptance
// never stands in for it.
func (r *Recovery) check(ctx context.Context, c *selection.Choice) *selection.Refusal {
	verdict, err := r.parts.Gate.Check(ctx, c.Output)
	if err != nil {
		verdict = Verdict{Outcome: Unknown, Message: "the check was given up"}
	}
	message := cut(selection.Redact(c.Output, selection.Alerts(verdict.Message)), maxVerdictBytes)
	object := v1alpha1.KindCfg + "/" + c.Name
	switch verdict.Outcome {
	case Valid:
		return nil
	case Refused:
		return &selection.Refusal{Reason: selection.ReasonGateRefused, Checksum: c.Output.Checksum(),
			Message: fmt.Sprintf("%s: expected HAProxy %s to accept it, found: %s", object, verdict.Version, message),
			Do:      "Fix rendering, or go back to the HAProxy version that ran it"}
	default:
		return &selection.Refusal{Reason: selection.ReasonGateUnknown, Checksum: c.Output.Checksum(),
			Message: fmt.Sprintf("%s: expected a verdict of HAProxy, found none: %s", object, message),
			Do:      "See why HAProxy does not run beside the controller", Quiet: err != nil}
	}
}
