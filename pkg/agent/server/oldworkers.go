package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// Bounds on the workers of earlier loads. Each holds a whole configuration in
// memory until its last connection ends.
const (
	defaultMaxOldWorkers = 16
	// mostOldWorkers keeps the master's table within the one buffer it is
	// answered from: beyond about 240 rows HAProxy leaves rows out.
	mostOldWorkers = 128
	// stopWait is how long a reload is held up by an old worker whose sessions
	// were closed; most end within milliseconds.
	stopWait = 300 * time.Millisecond
	// stopAgain is how often the sessions of one worker are closed.
	stopAgain = time.Second
)

// stopAttempt is the last old worker that was asked to end.
type stopAttempt struct {
	pid int64
	at  time.Time
}

// hasRoom reports that a reload would not leave more old workers than there may
// be. At the limit it stops the oldest: new connections have to be served by a
// current configuration, and those that keep the oldest worker alive pay for
// it. Until that worker ends the reload waits, and so it does while the master is
// silent: how many there are is unknown then. A master that is gone left none.
func (a *agent) hasRoom(ctx context.Context, seen observation) bool {
	if seen.Supervisor == api.SupervisorSilent {
		return false
	}
	for deadline := time.Now().Add(stopWait); len(seen.Old) >= a.config.MaxOldWorkers; {
		a.stop(ctx, seen.Old[0])
		if time.Now().After(deadline) || pause(ctx, pollStart) != nil {
			return false
		}
		seen, _ = a.haproxy.observe(ctx)
	}
	return true
}

func (a *agent) stop(ctx context.Context, oldest oldWorker) {
	if a.stopping.pid == oldest.PID && time.Since(a.stopping.at) < stopAgain {
		return
	}
	logger := klog.FromContext(ctx)
	if a.stopping.pid != oldest.PID {
		a.metrics.oldWorkersStop.Inc()
		logger.Info("Closed the connections of the oldest worker, since no more old workers may be left", "worker", oldest.PID, "limit", a.config.MaxOldWorkers)
	}
	a.stopping = stopAttempt{pid: oldest.PID, at: time.Now()}
	if err := a.haproxy.closeSessions(ctx, oldest.PID); err != nil {
		logger.Error(err, "Could not close every connection of the oldest worker", "worker", oldest.PID)
	}
}

// closeSessions ends every session of an old worker, which then ends by itself.
// A signal would need the processes of another container to be visible here.
func (s *supervisor) closeSessions(ctx context.Context, pid int64) error {
	ctx, cancel := context.WithTimeout(ctx, stopAgain)
	defer cancel()
	prefix := fmt.Sprintf("@!%d ", pid)
	answer, err := ask(ctx, s.master, prefix+"show sess")
	if err != nil {
		return fmt.Errorf("asking worker %d for its sessions: %w", pid, err)
	}
	var problems []error
	for _, session := range sessionsOf(answer) {
		if _, err := ask(ctx, s.master, prefix+"shutdown session "+session); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// sessionsOf lists the sessions of clients, leaving out those of the command
// line: the one that asks is among them.
func sessionsOf(answer string) []string {
	var sessions []string
	for line := range strings.SplitSeq(answer, "\n") {
		id, rest, ok := strings.Cut(line, ": ")
		if !ok || !isSessionID(id) || strings.Contains(rest, " fe=GLOBAL ") {
			continue
		}
		sessions = append(sessions, id)
	}
	return sessions
}

// isSessionID keeps whatever else an answer may hold out of a command.
func isSessionID(id string) bool {
	digits, ok := strings.CutPrefix(id, "0x")
	return ok && digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
}
