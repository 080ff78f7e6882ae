package sim

import (
	"slices"
	"strings"
	"testing/synctest"
	"time"
)

func (s *schedule) choose() Decision {
	if d, ok := s.foul(); ok {
		return d
	}
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
	if i.target == readElection && s.rng.IntN(100) < p.expire {
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
