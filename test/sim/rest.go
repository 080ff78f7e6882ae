package sim

import (
	"fmt"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// heal ends all faults: what is paused or cut off comes back, and somebody runs.
func (s *schedule) heal() {
	for _, p := range s.processes {
		p.paused = false
	}
	for _, a := range s.proxies() {
		a.mu.Lock()
		a.unreachable, a.rejects = false, 0
		a.mu.Unlock()
	}
	for len(s.names()) < 2 {
		s.start("c")
	}
	if len(s.proxies()) == 0 {
		s.addPod()
	}
	if s.inputs.state != inputsGood && s.after.IntN(3) > 0 {
		s.setInputs(inputs{version: s.after.IntN(s.profile.versions), state: inputsGood})
	}
}

// unrest says what is not at rest: some process must lead, and every pod have
// what it can have.
func (s *schedule) unrest() string {
	if s.leases.election.Holder == "" {
		return "nobody leads"
	}
	if s.inputs.state != inputsGood {
		// A leader that has nothing to do finds out that its claim is gone when it
		// has.
		return s.unservedWhileBlocked()
	}
	intent := s.leases.intent()
	if intent.Holder != s.leases.election.Holder {
		return fmt.Sprintf("%s leads and the claim is %s's", s.leases.election.Holder, intent.Holder)
	}
	if wrong := s.notRunning(intent.PlanID); wrong != "" {
		return wrong
	}
	if newest := s.pointers.newest(); newest.Checksum != intent.Checksum {
		return fmt.Sprintf("the newest checkpoint is %s, the intent %s", newest.Checksum, intent.Checksum)
	}
	if !s.pointers.isSound() {
		return "the newest checkpoint is damaged"
	}
	return ""
}

// notRunning names a pod that does not run the plan.
func (s *schedule) notRunning(plan string) string {
	for _, a := range s.proxies() {
		a.mu.Lock()
		runs := a.state.RunningPlanID
		a.mu.Unlock()
		if runs == "" || runs != plan {
			return fmt.Sprintf("pod %s runs plan %q, the intent is %q", a.name, runs, plan)
		}
	}
	return ""
}

// holders counts the pods that took the plan, running or not yet.
func (s *schedule) holders(plan string) int {
	n := 0
	for _, a := range s.proxies() {
		a.mu.Lock()
		if a.state.AppliedPlanID == plan {
			n++
		}
		a.mu.Unlock()
	}
	return n
}

// unrecovered names a pod that recovery has not served, where nothing stands in
// its way.
func (s *schedule) unrecovered() string {
	intent := s.leases.intent()
	if wrong := s.notRunning(intent.PlanID); wrong != "" {
		return wrong
	}
	if intent.Active == nil {
		return "the mark of recovery is not on the retained-state lease"
	}
	return ""
}

// unservedWhileBlocked names a bootstrap pod that was neither served nor told of.
func (s *schedule) unservedWhileBlocked() string {
	told := false
	var reasons []string
	for _, event := range s.server.Objects("events") {
		reason, _ := event["reason"].(string)
		reasons = append(reasons, reason)
		if strings.HasPrefix(reason, "RetainedConfig") {
			told = true
		}
	}
	for _, a := range s.proxies() {
		a.mu.Lock()
		phase := a.state.Phase
		a.mu.Unlock()
		if phase == api.PhaseBootstrap && !told {
			return fmt.Sprintf("rendering is blocked, and pod %s is neither served nor told of; events: %s", a.name, strings.Join(reasons, ", "))
		}
	}
	return ""
}
