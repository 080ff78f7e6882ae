package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

const (
	// maxStarts bounds the pods that are started at once. They share the bytes.
	maxStarts = 64
	// rejectPause is how long a pod whose HAProxy refused the checkpoint is left
	// alone. The same bytes at once would be refused again.
	rejectPause = time.Minute
	// maxReclaims bounds how often the epoch is lifted after one start.
	maxReclaims = 3
)

// hold keeps a pod from being started again at once. It ends early when one of
// the pod's containers was started anew.
type hold struct {
	until       time.Time
	incarnation string
}

// launch is one pod and the checkpoint for it.
type launch struct {
	pod      Pod
	decision *decision
	since    map[string]time.Time
}

// ending is how a start ended.
type ending struct {
	launch
	err error
	// abandoned says that the pod went away meanwhile.
	abandoned bool
}

// launch starts one pod in a goroutine that Run waits for. ctx is the term's: an
// apply is never broken off in the middle, unless its pod is gone.
func (r *Recovery) launch(ctx, prep context.Context, l launch) {
	if len(r.flying) >= maxStarts {
		return // the end of another start wakes the next attempt
	}
	own, cancel := context.WithCancel(ctx)
	r.flying[l.pod.UID] = cancel
	r.starts.Go(func() {
		defer cancel()
		err := r.fly(own, prep, l)
		r.checks.ended(l.pod.UID)
		r.mu.Lock()
		r.endings = append(r.endings, ending{launch: l, err: err, abandoned: own.Err() != nil && ctx.Err() == nil})
		r.mu.Unlock()
		r.Wake()
	})
}

// fly counts as under way from the moment that a guard lets the apply begin.
func (r *Recovery) fly(ctx, prep context.Context, l launch) error {
	flies := false
	land := func() {
		if flies {
			r.flight.leave()
		}
		flies = false
	}
	defer land()
	return r.parts.Agents.Start(ctx, Order{
		Pod: l.pod, Output: l.decision.choice.Output,
		Guard: func(ctx context.Context) error {
			land() // called again: the apply before it met a conflict
			if err := r.guard(ctx, prep, l); err != nil {
				return err
			}
			if flies = r.flight.enter(); !flies {
				return errCancelled
			}
			return nil
		},
	})
}

// abandon gives up the starts of pods that are gone. They can load nothing any
// more, and nobody should have to wait for their answer.
func (r *Recovery) abandon() {
	if len(r.flying) == 0 {
		return
	}
	pods, _ := r.parts.Fleet.Pods()
	for uid, cancel := range r.flying {
		if !slices.ContainsFunc(pods, func(p Pod) bool { return p.UID == uid }) {
			cancel()
		}
	}
}

// landed takes note of how a start ended.
func (r *Recovery) landed(ctx context.Context, e ending) {
	delete(r.flying, e.pod.UID)
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", e.pod.Name, "plan", e.decision.target.PlanID)
	if e.err == nil {
		r.metrics.Starts.WithLabelValues(outcomeStarted).Inc()
		logger.Info("Started a pod from a checkpoint", "checksum", e.decision.target.Checksum)
		return
	}
	if errors.Is(e.err, errCancelled) || errors.Is(e.err, fencing.ErrFenced) || e.abandoned || ctx.Err() != nil {
		logger.V(2).Info("Started no pod, it is gone, or recovery or the term has ended", "err", e.err)
		return
	}
	outcome := outcomeFailed
	refusal := r.explain(ctx, e)
	pause := r.pauseAfter(refusal)
	if refusal.Reason == selection.ReasonPodRejected {
		outcome, pause = outcomeRejected, rejectPause
	}
	r.metrics.Starts.WithLabelValues(outcome).Inc()
	r.held[e.pod.UID] = hold{until: time.Now().Add(pause), incarnation: e.pod.Incarnation}
	r.mu.Lock()
	cause := r.cause
	r.mu.Unlock()
	if cause == nil {
		logger.Info("Started no pod from a checkpoint, and no longer has to", "reason", refusal.Reason, "err", refusal.Message)
		return
	}
	_, excluded := r.parts.Fleet.Pods()
	r.refuse(ctx, refusal, *cause, excluded)
}

// explain makes a start's error a refusal.
func (r *Recovery) explain(ctx context.Context, e ending) *selection.Refusal {
	name := "pod " + e.pod.Name
	var refusal *selection.Refusal
	var rejected *RejectedError
	var outranked *OutrankedError
	var unresolved *UnresolvedError
	switch {
	case errors.As(e.err, &refusal):
		return refusal
	case errors.As(e.err, &rejected):
		return &selection.Refusal{Reason: selection.ReasonPodRejected, Checksum: e.decision.target.Checksum,
			Message: fmt.Sprintf("%s: expected its HAProxy to load the checkpoint, found: %s",
				name, cut(selection.Redact(e.decision.choice.Output, selection.Alerts(rejected.Message)), maxVerdictBytes)),
			Do: "See HAProxy's log in the pod. It stays NotReady and is tried again after a minute, or when restarted"}
	case errors.As(e.err, &outranked):
		return r.reclaim(ctx, e, outranked.Floor)
	case errors.As(e.err, &unresolved):
		return &selection.Refusal{Reason: selection.ReasonPodNotStarted, Checksum: e.decision.target.Checksum,
			Message: fmt.Sprintf("%s: expected an answer to its start, found %s", name, describe(unresolved.Err)),
			Do:      fmt.Sprintf("If its node is dead, delete the pod: kubectl delete pod %s --force --grace-period=0", e.pod.Name)}
	}
	return &selection.Refusal{Reason: selection.ReasonPodNotStarted, Checksum: e.decision.target.Checksum,
		Message: fmt.Sprintf("%s: expected to start, found %s", name, brief(selection.Redact(e.decision.choice.Output, describe(e.err)))),
		Do:      "It is tried again by itself; see the agent's log"}
}

// reclaim lifts the epoch over one that a pod reports, and tells the new one
// before anything is applied with it.
func (r *Recovery) reclaim(ctx context.Context, e ending, floor uint64) *selection.Refusal {
	refusal := &selection.Refusal{Reason: selection.ReasonEpochOutranked, Checksum: e.decision.target.Checksum,
		Message: fmt.Sprintf("pod %s: expected an epoch of at most %d, found %d", e.pod.Name, r.parts.Term.Epoch(), floor),
		Do:      "It is tried again by itself with a higher epoch; if that does not help, delete the pod"}
	for range maxReclaims {
		if floor < r.parts.Term.Epoch() {
			refusal.Quiet = true
			return refusal
		}
		callCtx, cancel := context.WithTimeout(ctx, r.settings.Timeout)
		err := r.parts.Term.Reclaim(callCtx, floor)
		cancel()
		if err != nil {
			klog.FromContext(ctx).Info("Did not go above an agent's floor", "pod", e.pod.Name, "floor", floor, "err", err)
			return refusal
		}
		for _, told := range r.parts.Agents.Announce(ctx, r.parts.Term.Epoch()) {
			floor = max(floor, told)
		}
	}
	return refusal
}
