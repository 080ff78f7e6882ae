package sim

import (
	"slices"
	"time"
)

// liveness stops all faults and waits for the system to come to rest. Some
// schedules that did not begin in an outage meet one then: they lose every
// process while nothing can be rendered. In the end all processes stop
// gracefully, one after another.
func (s *schedule) liveness() {
	s.note("faults stop")
	s.heal()
	if !s.comeToRest(s.unrest) {
		return
	}
	if s.inputs.state == inputsGood && !s.profile.outageFirst && s.after.IntN(3) == 0 && !s.outage() {
		return
	}
	if s.inputs.state == inputsGood && s.after.IntN(2) == 0 {
		s.lateChange()
	}
	for _, p := range s.running() {
		s.note("stop %s gracefully", p.name)
		p.stopping, p.stopped, p.disturbed = true, time.Now(), false
		p.stop()
		if !s.settle(stopLimit, p.ended) {
			s.violate(invariantLiveness, "%s does not end within %s of a graceful stop", p.name, stopLimit)
		}
		if len(s.broken()) > 0 {
			return
		}
		s.judgeStops()
	}
}

// comeToRest delivers everything until nothing is wrong any more.
func (s *schedule) comeToRest(wrong func() string) bool {
	if !s.settle(livenessLimit, func() bool { return wrong() == "" }) {
		s.violate(invariantLiveness, "not at rest %s after faults stopped: %s", livenessLimit, wrong())
	}
	return len(s.broken()) == 0
}

// outage is what the product exists for: a fleet at rest, inputs that cannot be
// rendered, every process gone, and replacement pods that come up under others.
func (s *schedule) outage() bool {
	s.note("outage")
	s.breakDown()
	if s.after.IntN(2) == 0 {
		s.repairMeanwhile()
	} else if !s.comeToRest(s.unrecovered) {
		return false
	}
	s.note("repair")
	s.setInputs(inputs{version: s.after.IntN(s.profile.versions), state: inputsGood})
	return s.comeToRest(s.unrest)
}

// openWithOutage brings the fleet to rest, loses every process, and stops where
// the first successor has claimed the retained state.
func (s *schedule) openWithOutage() {
	if !s.comeToRest(s.unrest) {
		return
	}
	s.note("outage")
	before := s.leases.intent().Epoch
	s.breakDown()
	s.settleUntil(func() bool { return s.leases.intent().Epoch > before })
	s.note("decisions begin")
}

// repairMeanwhile repairs the inputs while recovery's applies are under way, and
// holds those up for a while: the new intent has to wait for them.
func (s *schedule) repairMeanwhile() {
	recovering := func() bool { return slices.ContainsFunc(s.network.snapshot(), (*item).isRecovery) }
	s.settleUntil(recovering)
	if !recovering() {
		return
	}
	s.note("repair meanwhile")
	s.setInputs(inputs{version: (s.inputs.version + 1) % s.profile.versions, state: inputsGood})
	s.held = (*item).isRecovery
	s.deliver(repairLimit, func(bool) bool { return !recovering() })
	s.held = nil
}

func (s *schedule) breakDown() {
	s.setInputs(inputs{version: s.inputs.version, state: []string{inputsBroken, inputsRefused}[s.step%2]})
	for _, p := range s.running() {
		s.crash(p)
	}
	if pods := s.proxies(); len(pods) > 1 && s.step%4 < 2 {
		s.removePod(pods[0].name)
	}
	s.addPod()
	s.start("a")
	s.start("b")
}

// lateChange lets the fleet come to a new output just before the processes are
// stopped: somewhere between the intent and the last acknowledgement.
func (s *schedule) lateChange() {
	before := s.leases.intent().PlanID
	s.setInputs(inputs{version: (s.inputs.version + 1) % s.profile.versions, state: inputsGood})
	stages := []func() bool{
		func() bool { return s.leases.intent().PlanID != before },
		func() bool { return s.leases.intent().PlanID != before && s.holders(s.leases.intent().PlanID) > 0 },
		func() bool {
			return s.leases.intent().PlanID != before && s.notRunning(s.leases.intent().PlanID) == ""
		},
	}
	stage := s.after.IntN(len(stages))
	s.note("late change, up to stage %d", stage)
	s.settleUntil(stages[stage])
}

// seenLimit is how soon a process knows that its inputs are good again, the check
// of a new output included. Until then rendering is blocked to it, and a drain
// publishes nothing.
const seenLimit = 6 * time.Second

// judgeStops looks at processes that ended since.
func (s *schedule) judgeStops() {
	for _, p := range s.processes {
		if p.stopping && p.ended() && !p.disturbed && s.inputs.state == inputsGood && p.stopped.Sub(s.repaired) >= seenLimit {
			s.drains.judge(p)
		}
		if p.ended() {
			p.stopping = false
		}
	}
}
