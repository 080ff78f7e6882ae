package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// profile is the character of a schedule. Each seed has another one: schedules
// in which everything happens now and then hardly ever meet the histories in
// which one kind of thing happens often.
type profile struct {
	// faults multiplies the weight of each kind of fault.
	faults map[string]int
	// Chances in percent: of a fault per decision, of letting time pass, of lost
	// requests and replies, of replies that wait, and of a follower whose clock
	// jumps ahead.
	fault, wait, drop, cut, hold, expire int
	// outageFirst lets the decisions begin in an outage, when a fleet at rest has
	// lost its processes and the first successor has just made its claim: what
	// disturbs recovery seldom comes about by chance.
	outageFirst bool
	// foul says that somebody takes the files of checkpoints about to be promoted.
	foul bool
	// stuck is the chance, one in so many, that an item waits for stuckSteps
	// decisions.
	stuck, stuckSteps int
	versions          int
	publishInterval   time.Duration
	// verdict is how long HAProxy takes to check an output.
	verdict time.Duration
	// pace is the least time between two reloads of a pod, 0 for none.
	pace time.Duration
}

func newProfile(rng *rand.Rand) profile {
	among := func(values ...int) int { return values[rng.IntN(len(values))] }
	p := profile{
		faults: map[string]int{},
		fault:  among(3, 6, 10), wait: among(4, 8, 16),
		drop: among(0, 2, 6), cut: among(0, 3, 8), hold: among(0, 5, 12), expire: among(0, 2, 10, 25),
		stuck: among(0, 8, 16), stuckSteps: among(10, 25, 50),
		versions:        among(2, 3, 6),
		publishInterval: time.Duration(among(0, 2, 5)) * time.Second,
		pace:            time.Duration(among(0, 0, 3)) * time.Second,
	}
	for _, f := range faults() {
		p.faults[f.name] = among(0, 1, 1, 4)
	}
	for _, needed := range []string{changeInputs, "start", "resume", "reconnect"} {
		p.faults[needed] = max(1, p.faults[needed])
	}
	p.verdict = time.Duration(among(0, 0, 1, 4)) * time.Second
	p.outageFirst = rng.IntN(6) == 0
	p.foul = rng.IntN(4) == 0
	return p
}

// holdsBack reports that an item still has to wait: by its name, so that a
// replay decides the same.
func (p profile) holdsBack(i *item, step int) bool {
	if p.stuck == 0 || i.class == classEvent || step-i.since >= p.stuckSteps {
		return false
	}
	h := fnv.New32a()
	h.Write([]byte(i.key))
	return h.Sum32()%uint32(p.stuck) == 0
}
