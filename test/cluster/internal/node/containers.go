package node

import (
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	backoffStart = 500 * time.Millisecond
	backoffLimit = 10 * time.Second
	// backoffReset is how long a container must have run to start afresh.
	backoffReset = 20 * time.Second
)

// runContainers runs init containers one after another, then the main ones
// together, and ends sidecars when the main ones have ended.
func (p *pod) runContainers() {
	var sidecars, mains sync.WaitGroup
	defer sidecars.Wait()
	defer p.endSidecars()
	for _, c := range p.ofRole(roleInit, roleSidecar) {
		if c.role == roleSidecar {
			sidecars.Go(c.keep)
			if !c.waitStarted() {
				return
			}
			continue
		}
		c.keep()
		if !p.succeeded(c) {
			return
		}
	}
	for _, c := range p.ofRole(roleMain) {
		mains.Go(c.keep)
	}
	mains.Wait()
}

func (p *pod) ofRole(roles ...role) []*container {
	var found []*container
	for _, c := range p.containers {
		for _, r := range roles {
			if c.role == r {
				found = append(found, c)
			}
		}
	}
	return found
}

func (p *pod) succeeded(c *container) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
}

// keep runs a container again and again as its restart policy says, until it
// has ended for good or is asked to.
func (c *container) keep() {
	delay := backoffStart
	for {
		begun := time.Now()
		outcome := c.once()
		if c.stop().Err() != nil || !restarts(c.role, c.policy, outcome) {
			c.settle()
			return
		}
		if time.Since(begun) > backoffReset {
			delay = backoffStart
		}
		c.backOff(outcome, delay)
		select {
		case <-c.stop().Done():
			c.settle()
			return
		case <-time.After(delay):
		}
		delay = min(2*delay, backoffLimit)
	}
}

// outcome is how one run of a container went.
type outcome struct {
	// started is false when there was no process; the attempt is repeated
	// whatever the policy.
	started bool
	code    int
	reason  string
	message string
	// demanded says that we ended it, so that the reason is not its own.
	demanded bool
}

// restarts decides by role and policy whether a container runs again.
func restarts(r role, policy corev1.RestartPolicy, o outcome) bool {
	switch {
	case !o.started, r == roleSidecar:
		return true
	case r == roleInit:
		return o.code != 0 && policy != corev1.RestartPolicyNever
	case policy == corev1.RestartPolicyAlways:
		return true
	case policy == corev1.RestartPolicyOnFailure:
		return o.code != 0
	}
	return false
}

func (p *pod) removeFolders() {
	for _, folder := range []string{p.scratch(), p.folder()} {
		if err := os.RemoveAll(folder); err != nil {
			p.logger.Error(err, "Deleting a pod's files failed", "folder", folder)
		}
	}
}
