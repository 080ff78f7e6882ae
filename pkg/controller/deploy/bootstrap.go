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

const (
	// resolvePause is the time between two looks at a pod whose apply was not
	// answered, or was put off.
	resolvePause = 500 * time.Millisecond
	// resolveLimit bounds those looks. It is the time the client gives an apply
	// from the upload to the answer, so that whatever the agent began has ended.
	resolveLimit = client.DefaultApplyTimeout
)

// NotBootstrapError says that a pod is no bootstrap pod, or no longer, so that
// recovery must leave it alone.
type NotBootstrapError struct {
	Pod string
	// Found is what the pod is instead.
	Found string
}

func (e *NotBootstrapError) Error() string {
	return fmt.Sprintf("pod %s is no bootstrap pod: %s", e.Pod, e.Found)
}

// UnresolvedError says that nobody knows whether a pod took an apply: neither
// the apply nor a look at the pod afterwards was answered.
type UnresolvedError struct {
	Pod string
	Err error
}

func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("pod %s answered neither an apply nor when asked about it: %v", e.Pod, e.Err)
}

func (e *UnresolvedError) Unwrap() error { return e.Err }

// Outranked tells whether a pod refused because it has heard of a later epoch,
// and of which.
func Outranked(err error) (floor uint64, ok bool) {
	var outranked *outrankedError
	if !errors.As(err, &outranked) {
		return 0, false
	}
	return outranked.floor, true
}

// Bootstrap starts pods that never received an output with one that is not the
// term's own. It touches no other pod: the agent is asked first, and the apply
// itself is bound to the bootstrap phase.
type Bootstrap struct {
	// rules are the deployer's, so that both judge a pod's answer alike. It is
	// never run.
	rules *Deployer
}

// NewBootstrap makes a Bootstrap for one term.
func NewBootstrap(settings Settings, agents Agents, term Term) *Bootstrap {
	return &Bootstrap{rules: New(settings, Parts{Agents: agents, Term: term})}
}

// BootstrapOrder is one pod to start.
type BootstrapOrder struct {
	Pod Pod
	// Candidate has sequence 0: every render of the term comes after it.
	Candidate *Candidate
	// Guard is called immediately before each apply, so also after each
	// conflict. Its error is returned, and then nothing was applied.
	Guard func(ctx context.Context) error
}

// Start brings one bootstrap pod to the output and returns its proof of running
// it. An apply that was not answered is resolved by reading the pod's state
// before Start returns; if the pod stays silent, the error is an
// UnresolvedError. When ctx ends, nothing is resolved.
func (b *Bootstrap) Start(ctx context.Context, o BootstrapOrder) (checkpoint.PodEntry, error) {
	if o.Candidate.Sequence != 0 {
		return checkpoint.PodEntry{}, fmt.Errorf("starting pod %s with sequence %d, which is a render's", o.Pod.Name, o.Candidate.Sequence)
	}
	var last error
	for range maxAttempts {
		entry, again, err := b.attempt(ctx, o)
		if !again {
			return entry, err
		}
		klog.FromContext(ctx).V(2).Info("Start of a bootstrap pod met another state and will be repeated", "pod", o.Pod.Name, "err", err)
		last = err
	}
	return checkpoint.PodEntry{}, fmt.Errorf("gave up after %d attempts: %w", maxAttempts, last)
}

// attempt reads, guards and applies once.
func (b *Bootstrap) attempt(ctx context.Context, o BootstrapOrder) (entry checkpoint.PodEntry, again bool, err error) {
	target := b.rules.target(o.Pod)
	state, err := b.state(ctx, target)
	if err != nil {
		return entry, false, err
	}
	if o.Candidate.runsOn(state) {
		// An earlier term may have started it, or this one without an answer.
		entry, err = b.proven(o, state)
		return entry, false, err
	}
	if !state.IsBootstrap() {
		return entry, false, &NotBootstrapError{Pod: o.Pod.Name, Found: found(state)}
	}
	if err := o.Guard(ctx); err != nil {
		return entry, false, err
	}
	result, err := b.apply(ctx, target, o.Candidate, state)
	if err == nil {
		entry, err = b.rules.judge(o.Pod, o.Candidate, result)
	}
	var unanswered *client.UnansweredError
	var pending *pendingError
	switch {
	case err == nil:
		return entry, false, nil
	case errors.As(err, &unanswered), errors.As(err, &pending):
		entry, err = b.settle(ctx, o, unsettled{before: state, cause: err})
		return entry, errors.Is(err, errNotTaken), err
	case result != nil:
		return entry, false, err
	}
	var conflict *client.ConflictError
	if errors.As(err, &conflict) && conflict.Conflict.Reason == api.ReasonPhaseMismatch {
		return entry, true, err // the next look says what the pod is
	}
	if final := b.rules.resolve(ctx, err); final != nil {
		return entry, false, final
	}
	return entry, true, err
}

// errNotTaken says that an unanswered apply left no trace.
var errNotTaken = errors.New("the apply was not carried out")

// unsettled is an apply whose end is not known yet.
type unsettled struct {
	// before is the pod as it was ahead of the apply.
	before *api.State
	cause  error
}

// settle reads the pod until it says what became of an apply.
func (b *Bootstrap) settle(ctx context.Context, o BootstrapOrder, u unsettled) (checkpoint.PodEntry, error) {
	target := b.rules.target(o.Pod)
	cause := u.cause
	for began := time.Now(); ; {
		state, err := b.state(ctx, target)
		switch {
		case err != nil:
			cause = fmt.Errorf("%w, then: %w", u.cause, err)
		case o.Candidate.runsOn(state):
			return b.proven(o, state)
		case state.ReloadPendingAt != nil:
			// Its reload is still to come.
		case refusedSince(o.Candidate, u.before, state):
			detail, _ := o.Candidate.refusedBy(state)
			return checkpoint.PodEntry{}, &RejectedError{Detail: detail}
		case state.IsBootstrap():
			return checkpoint.PodEntry{}, fmt.Errorf("%w: %w", errNotTaken, cause)
		default:
			return checkpoint.PodEntry{}, &NotBootstrapError{Pod: o.Pod.Name, Found: found(state)}
		}
		if time.Since(began) >= resolveLimit {
			return checkpoint.PodEntry{}, &UnresolvedError{Pod: o.Pod.Name, Err: cause}
		}
		select {
		case <-ctx.Done():
			return checkpoint.PodEntry{}, &UnresolvedError{Pod: o.Pod.Name, Err: ctx.Err()}
		case <-time.After(resolvePause):
		}
	}
}

// refusedSince tells whether the pod's HAProxy refused this very output after
// the look before.
func refusedSince(c *Candidate, before, s *api.State) bool {
	if _, refused := c.refusedBy(s); !refused {
		return false
	}
	return before.LastApply == nil || !before.LastApply.At.Equal(s.LastApply.At)
}

func (b *Bootstrap) state(ctx context.Context, target client.Target) (*api.State, error) {
	ctx, cancel := context.WithTimeout(ctx, b.rules.settings.Timeout)
	defer cancel()
	return b.rules.agents.State(ctx, target, client.StateOptions{Verify: true, WithoutPlan: true})
}

// apply expects a pod that has nothing: no plan, no token, and the phase that
// tells it from one that merely lost what it had. The state before tells a lost
// answer from what was there already.
func (b *Bootstrap) apply(ctx context.Context, target client.Target, c *Candidate, before *api.State) (*api.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, b.rules.settings.Timeout)
	defer cancel()
	request := c.request(&api.State{}, api.Token{LeaderEpoch: b.rules.term.Epoch()})
	request.Manifest.ExpectedPhase = api.PhaseBootstrap
	request.Features, request.Before = before.Features, before
	result, err := b.rules.agents.Apply(ctx, target, request)
	if err != nil && ctx.Err() != nil {
		// Whatever the agents' client made of the end of the time: the request
		// may be with the pod.
		err = &client.UnansweredError{Pod: target.PodName, Err: err}
	}
	return result, err
}

func (b *Bootstrap) proven(o BootstrapOrder, s *api.State) (checkpoint.PodEntry, error) {
	return b.rules.proven(o.Pod, o.Candidate, account{Plans: s.Plans, haproxy: s.HAProxy, mode: o.Candidate.modeOf(s)})
}

// found says in a few words what a pod is.
func found(s *api.State) string {
	return fmt.Sprintf("phase %q, applied plan %q, running plan %q, worker %q", s.Phase, s.AppliedPlanID, s.RunningPlanID, s.WorkerStatus)
}
