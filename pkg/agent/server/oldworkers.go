package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds on the workers of earlier loads. Each holds a whole configuration in
// memory until its last connection ends.
const (
	defaultMaxOldWorkers = 16
	// mostOldWorkers keeps the master's table within the one buffer it is
	// answered from: beyond about 240 rows HAProxy leaves rows out.
	mostOldWorkers = 128
	// stopWait is how long a worker may take to end after its connections were
	// closed; it takes milliseconds.
	stopWait = 10 * time.Second
)

// errNoRoom says that there are as many old workers as there may be, and the
// oldest does not end.
var errNoRoom = errors.New("the oldest worker does not end, and no more may be left behind")

// makeRoom stops the oldest worker, because a reload now would leave one more
// than there may be. New connections are served by a configuration that is
// current; those that keep the oldest worker alive pay for it.
func (a *reloadAttempt) makeRoom(ctx context.Context, oldest oldWorker) bool {
	if a.stopping != oldest.PID {
		a.stopping, a.stopUntil = oldest.PID, time.Now().Add(a.stopWait)
		if a.stopped != nil {
			a.stopped(oldest.PID)
		}
	}
	if time.Now().After(a.stopUntil) {
		a.outcome.Result, a.outcome.Problem = resultUnresolved, fmt.Errorf("worker %d: %w", oldest.PID, errNoRoom)
		return true
	}
	if err := a.closeSessions(ctx, oldest.PID); err != nil {
		a.outcome.Problem = err
	}
	return false
}

// closeSessions ends every session of an old worker, which then ends by itself.
// A signal would need the processes of another container to be visible here.
func (s *supervisor) closeSessions(ctx context.Context, pid int64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
