package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// reloadWait bounds how long the outcome of one reload is looked for.
const reloadWait = 60 * time.Second

const (
	pollStart = 5 * time.Millisecond
	pollMax   = 100 * time.Millisecond
)

// supervisor is HAProxy's master and its current worker, as their sockets show
// them. It keeps nothing between two questions.
type supervisor struct {
	master string
	worker string
	wait   time.Duration
}

// observation is one consistent look at both.
type observation struct {
	processes
	Info       workerInfo
	Supervisor api.SupervisorStatus
}

// worker is the current worker, zero when none was seen.
func (o observation) worker() workerID {
	return workerID{PID: o.Info.PID, Start: o.Info.StartTime}
}

// observe asks the master which worker is current, and that worker, through the
// master, who it is. The worker's own socket would not do: during a reload the
// old worker may still answer there.
func (s *supervisor) observe(ctx context.Context) (observation, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := ask(ctx, s.master, "show proc")
	switch {
	case errors.Is(err, errNotSent):
		return observation{Supervisor: api.SupervisorAbsent}, fmt.Errorf("asking the master for its workers: %w", err)
	case err != nil:
		return observation{Supervisor: api.SupervisorSilent}, fmt.Errorf("asking the master for its workers: %w", err)
	}
	seen := observation{Supervisor: api.SupervisorAnswering}
	if seen.processes, err = parseProcesses(answer); err != nil {
		// Neither a worker nor the absence of one was read.
		return observation{Supervisor: api.SupervisorSilent}, err
	}
	if seen.Worker == 0 {
		return seen, errors.New("the master lists no current worker")
	}
	answer, err = ask(ctx, s.master, fmt.Sprintf("@!%d show info", seen.Worker))
	if err != nil {
		return seen, fmt.Errorf("asking worker %d who it is: %w", seen.Worker, err)
	}
	if seen.Info, err = parseInfo(answer); err != nil {
		return seen, err
	}
	if seen.Info.PID != seen.Worker {
		return seen, fmt.Errorf("worker %d answered as %d", seen.Worker, seen.Info.PID)
	}
	return seen, nil
}

// observeBoth also requires that the worker's own socket leads to that worker.
func (s *supervisor) observeBoth(ctx context.Context) (observation, error) {
	seen, err := s.observe(ctx)
	if err != nil {
		return seen, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := ask(ctx, s.worker, "show info")
	if err != nil {
		return seen, fmt.Errorf("asking the worker's socket: %w", err)
	}
	info, err := parseInfo(answer)
	if err != nil {
		return seen, err
	}
	if info.PID != seen.Worker {
		return seen, fmt.Errorf("the worker's socket leads to %d, current is %d", info.PID, seen.Worker)
	}
	return seen, nil
}

// reloadOutcome is what became of a reload.
type reloadOutcome struct {
	Result reloadResult
	Before observation
	After  observation
	// Log is HAProxy's start-up log, where the version gives one.
	Log string
	// Problem is the last reason why nothing could be read, if so.
	Problem error
}

type reloadResult string

const (
	resultLoaded     reloadResult = "reload"
	resultRejected   reloadResult = "rejected"
	resultUnresolved reloadResult = "unresolved"
)

// reload makes the master load what is on disk and finds out, by its effect,
// whether a worker runs it. The nonce decides, on a worker that this reload
// brought about: HAProxy opens one file after the other, so that a master which
// was just starting when the set became current may have read files of both
// sets, the nonce among them. The master's counters tell a reload that was
// carried out from one that was not.
func (s *supervisor) reload(ctx context.Context, nonce string) reloadOutcome {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	attempt := reloadAttempt{supervisor: s, nonce: nonce}
	for pause := pollStart; ; pause = min(pause*3/2, pollMax) {
		if attempt.step(ctx) {
			return attempt.outcome
		}
		select {
		case <-ctx.Done():
			attempt.outcome.Result = resultUnresolved
			if attempt.outcome.Problem == nil {
				attempt.outcome.Problem = context.Cause(ctx)
			}
			return attempt.outcome
		case <-time.After(pause):
		}
	}
}

// reloadAttempt is a reload whose outcome is being looked for.
type reloadAttempt struct {
	*supervisor
	nonce   string
	known   bool // outcome.Before holds the master as it was before the command
	outcome reloadOutcome
}

// step looks once and sends the command when it is certain that the master has
// not carried it out. It reports whether the outcome is known.
func (a *reloadAttempt) step(ctx context.Context) bool {
	seen, err := a.observe(ctx)
	switch {
	case seen.MasterPID == 0:
		// Just after a reload the master executes itself anew and its socket
		// may refuse or reset. That says nothing about the outcome.
		a.outcome.Problem = err
		return false
	case !a.known || seen.MasterPID != a.outcome.Before.MasterPID || seen.Reloads < a.outcome.Before.Reloads:
		// First look, or another master, of which nobody knows when it began
		// to read. In a container of its own every master has the same PID.
		a.known, a.outcome.Before = true, seen
	case err == nil && seen.Info.Description == a.nonce && seen.Reloads > a.outcome.Before.Reloads:
		a.outcome.After, a.outcome.Problem, a.outcome.Result = seen, nil, resultLoaded
		return true
	}
	a.outcome.After, a.outcome.Problem = seen, err
	switch {
	case seen.Reloads == a.outcome.Before.Reloads:
		return a.send(ctx)
	case seen.Failed > 0 && err == nil:
		a.outcome.Result = resultRejected
		return true
	}
	// Carried out and not refused: the new worker is on its way.
	return false
}

// send gives the command. Only a version that answers "refused" ends it here.
func (a *reloadAttempt) send(ctx context.Context) bool {
	answer, err := ask(ctx, a.master, "reload")
	if err != nil {
		a.outcome.Problem = err
		return false
	}
	verdict, log := parseReload(answer)
	a.outcome.Log = log
	if verdict == verdictRefused {
		// The master is in its old configuration again; read who serves now.
		if seen, err := a.observe(ctx); err == nil {
			a.outcome.After = seen
		}
		a.outcome.Result = resultRejected
		return true
	}
	return false
}
