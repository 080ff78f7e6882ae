package sim

import (
	"fmt"
	globalrand "math/rand"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// safetySteps is how many decisions the phase with faults has.
	safetySteps = 160
	// livenessLimit bounds the virtual time in which the system must come to
	// rest once faults have stopped: a Lease that must expire, restarts of the
	// election, and the longest retries, some times over.
	livenessLimit = 10 * time.Minute
	// replayPatience and replayPause bound how long a replay waits for an item.
	replayPatience = 50
	replayPause    = 100 * time.Millisecond
	// maxFeed bounds what one decision delivers to the caches of a process.
	maxFeed = 40
	// maxPerInstant bounds what may move before time has to pass: more is a loop
	// that never waits.
	maxPerInstant = 5000
	// repairLimit is how long recovery's applies are held up.
	repairLimit = 5 * time.Second
	// stopLimit bounds a graceful stop, which the product bounds to less.
	stopLimit = time.Minute
)

// Options say how one schedule is run.
type Options struct {
	Seed uint64
	// Replay, if set, takes the decisions of a recording instead of the seed's.
	Replay *Trace
	// Verbose keeps logs and commits in the history.
	Verbose bool
}

// Result is how a schedule went.
type Result struct {
	Trace   Trace
	History []string
	// Diverged is set when a replay met another world than the recording.
	Diverged error
	Virtual  time.Duration
	Coverage Coverage
}

// Run executes one schedule. It must be called in a bubble of testing/synctest.
func Run(t testing.TB, o Options) *Result {
	// client-go takes its jitter from this generator, and nothing else reaches it.
	// Seeding it is what makes seeds repeat.
	//lint:ignore SA1019 see above
	globalrand.Seed(int64(o.Seed))
	w := newWorld(t, o.Verbose)
	s := &schedule{world: w, rng: rand.New(rand.NewPCG(o.Seed, 0x686f6c64)), trace: Trace{Seed: o.Seed}}
	if o.Replay != nil {
		s.replay = o.Replay.Decisions
	}
	began := time.Now()
	w.profile = newProfile(s.rng)
	defer s.tearDown()
	s.setUp()
	err := s.safety()
	if err == nil && len(w.broken()) == 0 {
		s.liveness()
	}
	s.trace.Violations = w.broken()
	return &Result{Trace: s.trace, History: w.history.lines, Diverged: err, Virtual: time.Since(began), Coverage: w.counter.Coverage}
}

// schedule makes the decisions.
type schedule struct {
	*world
	rng    *rand.Rand
	replay []Decision
	trace  Trace
	// held keeps items waiting outside of decisions.
	held func(*item) bool
}

func (s *schedule) setUp() {
	s.setInputs(inputs{version: s.rng.IntN(s.profile.versions), state: inputsGood})
	for range 1 + s.rng.IntN(3) {
		s.addPod()
	}
	if s.rng.IntN(8) == 0 {
		s.leaveOldCopy(s.rng.IntN(2) == 0)
	}
	s.start("a")
	s.start("b")
}

// safety makes random decisions, faults among them.
func (s *schedule) safety() error {
	for len(s.trace.Decisions) < safetySteps {
		synctest.Wait()
		if len(s.broken()) > 0 {
			return nil
		}
		d, more := s.next()
		if !more {
			return nil
		}
		if err := s.perform(d); err != nil {
			return err
		}
	}
	return nil
}

// next is the recorded decision of a replay, or a new one.
func (s *schedule) next() (Decision, bool) {
	n := len(s.trace.Decisions)
	if s.replay != nil {
		if n >= len(s.replay) {
			return Decision{}, false
		}
		return s.replay[n], true
	}
	return s.choose(), true
}

func (s *schedule) choose() Decision {
	items, feeds := s.choosable()
	dice := s.rng.IntN(100)
	switch {
	case dice < s.profile.fault || len(items)+len(feeds) == 0 && dice < 30:
		if d, ok := s.chooseFault(); ok {
			return d
		}
	case len(feeds) > 0 && s.rng.IntN(3) > 0:
		p := feeds[s.rng.IntN(len(feeds))].process
		return Decision{Do: "feed", What: p}
	case dice >= s.profile.fault+s.profile.wait && len(items) > 0:
		i := items[s.rng.IntN(len(items))]
		return Decision{Do: "release", What: i.key, Fate: s.chooseFate(i)}
	}
	waits := []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second, 20 * time.Second}
	return Decision{Do: "wait", For: waits[s.rng.IntN(len(waits))]}
}

// choosable are the items that may be released now, in order of their names,
// and those among them that feed caches.
func (s *schedule) choosable() (items, feeds []*item) {
	for _, i := range s.network.snapshot() {
		if p := s.process(i.process); p != nil && p.paused || s.profile.holdsBack(i, s.step) {
			continue
		}
		items = append(items, i)
		if i.isInformers() {
			feeds = append(feeds, i)
		}
	}
	byName := func(a, b *item) int { return strings.Compare(a.key, b.key) }
	slices.SortFunc(items, byName)
	slices.SortFunc(feeds, byName)
	return items, feeds
}

// feed brings the caches of a process up to date: most of their traffic says
// nothing, and would use decisions up.
func (s *schedule) feed(process string) {
	for range maxFeed {
		_, feeds := s.choosable()
		moved := false
		for _, i := range feeds {
			if i.process == process {
				s.network.let(i.key, fateDeliver)
				moved = true
				break
			}
		}
		if !moved {
			return
		}
		synctest.Wait()
	}
}

func (s *schedule) chooseFate(i *item) string {
	p, dice := s.profile, s.rng.IntN(100)
	if i.target == "get leases "+electionName && s.rng.IntN(100) < p.expire {
		return fateExpired
	}
	switch i.class {
	case classEvent, classReply, classAgentReply:
		if dice < p.drop {
			return fateDrop
		}
		return fateDeliver
	}
	switch {
	case dice < p.drop:
		return fateDrop
	case dice < p.drop+p.cut:
		return fateCut
	case dice < p.drop+p.cut+p.hold:
		return fateHoldReply
	}
	return fateDeliver
}

// perform carries a decision out and records it.
func (s *schedule) perform(d Decision) error {
	s.step++
	s.network.at(s.step)
	s.trace.Decisions = append(s.trace.Decisions, d)
	s.note("%3d %s", s.step, d)
	switch d.Do {
	case "release":
		i, ok := s.network.let(d.What, d.Fate)
		for range replayPatience {
			if ok || s.replay == nil {
				break
			}
			// Timers may run a little differently. What was recorded comes soon.
			s.sleep(replayPause)
			synctest.Wait()
			i, ok = s.network.let(d.What, d.Fate)
		}
		if !ok {
			return fmt.Errorf("%w at decision %d: %q does not wait", errDiverged, len(s.trace.Decisions), d.What)
		}
		if p := s.process(i.process); p != nil && p.stopping && d.Fate != fateDeliver {
			p.disturbed = true
		}
	case "wait":
		s.sleep(d.For)
	case "feed":
		s.feed(d.What)
	default:
		return s.strike(d)
	}
	return nil
}

// sleep lets time pass until something new waits on the network.
func (s *schedule) sleep(limit time.Duration) {
	select {
	case <-s.network.news: // of what waits already
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.network.news:
	}
}

// settle delivers everything in order until nothing waits and done holds, or
// limit has passed.
func (s *schedule) settle(limit time.Duration, done func() bool) bool {
	return s.deliver(limit, func(quiet bool) bool { return quiet && done() })
}

// settleUntil delivers in order until done holds, whatever still waits.
func (s *schedule) settleUntil(done func() bool) {
	s.deliver(stopLimit, func(bool) bool { return done() })
}

func (s *schedule) deliver(limit time.Duration, done func(quiet bool) bool) bool {
	deadline := time.Now().Add(limit)
	instant, moved := time.Now(), 0
	for {
		synctest.Wait()
		if now := time.Now(); now != instant {
			instant, moved = now, 0
		}
		if moved++; moved > maxPerInstant {
			s.violate(invariantLiveness, "%d items moved on the network and no time passed", moved)
			return true
		}
		if len(s.broken()) > 0 {
			return true
		}
		items := slices.DeleteFunc(s.network.snapshot(), func(i *item) bool {
			p := s.process(i.process)
			return p != nil && p.paused || s.held != nil && s.held(i)
		})
		if done(len(items) == 0) {
			return true
		}
		if len(items) == 0 {
			if time.Now().After(deadline) {
				return false
			}
			s.server.CollectGarbage()
			s.step++
			s.sleep(time.Second)
			continue
		}
		slices.SortFunc(items, func(a, b *item) int { return strings.Compare(a.key, b.key) })
		s.step++
		if s.verbose {
			s.note("    deliver %s", items[0].key)
		}
		s.network.let(items[0].key, fateDeliver)
	}
}

// liveness stops all faults and waits for the system to come to rest. Some
// schedules then lose every process while nothing can be rendered. In the end
// all processes stop gracefully, one after another.
func (s *schedule) liveness() {
	s.note("faults stop")
	s.heal()
	if !s.comeToRest(s.unrest) {
		return
	}
	if s.inputs.state == inputsGood && s.rng.IntN(3) == 0 && !s.outage() {
		return
	}
	if s.inputs.state == inputsGood && s.rng.IntN(2) == 0 {
		s.lateChange()
	}
	for _, p := range s.running() {
		s.note("stop %s gracefully", p.name)
		p.stopping, p.disturbed = true, false
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
	if s.rng.IntN(2) == 0 {
		s.repairMeanwhile()
	} else if !s.comeToRest(s.unrecovered) {
		return false
	}
	s.note("repair")
	s.setInputs(inputs{version: s.rng.IntN(s.profile.versions), state: inputsGood})
	return s.comeToRest(s.unrest)
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
	stage := s.rng.IntN(len(stages))
	s.note("late change, up to stage %d", stage)
	s.settleUntil(stages[stage])
}

// judgeStops looks at processes that ended since.
func (s *schedule) judgeStops() {
	for _, p := range s.processes {
		if p.stopping && p.ended() && !p.disturbed && s.inputs.state == inputsGood {
			s.drains.judge(p)
		}
		if p.ended() {
			p.stopping = false
		}
	}
}

// tearDown ends everything of the schedule.
func (s *schedule) tearDown() {
	for _, p := range s.processes {
		s.network.kill(p.name)
		p.stop()
	}
	s.network.close()
	for _, p := range s.processes {
		<-p.done
	}
}
