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
	Coverage Coverage
}

// Run executes one schedule. It must be called in a bubble of testing/synctest.
func Run(t testing.TB, o Options) *Result {
	// client-go takes its jitter from this generator, and nothing else reaches it.
	// Seeding it is what makes seeds repeat.
	//lint:ignore SA1019 see above
	globalrand.Seed(int64(o.Seed))
	w := newWorld(t, o.Verbose)
	s := &schedule{
		world: w, rng: rand.New(rand.NewPCG(o.Seed, 0x686f6c64)), after: rand.New(rand.NewPCG(o.Seed, 0x66617374)),
		trace: Trace{Seed: o.Seed},
	}
	if o.Replay != nil {
		s.replay = o.Replay.Decisions
	}
	w.profile = newProfile(s.rng)
	defer s.tearDown()
	s.setUp()
	err := s.safety()
	if err == nil && len(w.broken()) == 0 {
		s.liveness()
	}
	s.trace.Violations = w.broken()
	return &Result{Trace: s.trace, History: w.history.lines, Diverged: err, Coverage: w.counter.Coverage}
}

// schedule makes the decisions.
type schedule struct {
	*world
	// rng makes the decisions. What follows them has another generator, so that a
	// replay, which takes no decisions from it, goes on in the same way.
	rng, after *rand.Rand
	replay     []Decision
	trace      Trace
	// held keeps items waiting outside of decisions.
	held func(*item) bool
	// ahead is a process whose clock jumped ahead.
	ahead string
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
	if s.profile.outageFirst {
		s.openWithOutage()
	}
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
		s.network.let(items[0].key, s.fateOf(items[0]))
	}
}

// fateOf is what becomes of an item outside of decisions.
func (s *schedule) fateOf(i *item) string {
	if i.process == s.ahead && i.target == readElection && !s.process(s.ahead).owns(s.leases.election.Holder) {
		return fateExpired
	}
	return fateDeliver
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
