package view

import (
	"time"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// Default names of the leader-election Lease: ours, and the one of HAPTIC,
// which is the same for every template.
const (
	electionSuffix     = "-leader"
	hapticElectionName = "haptic-leader"
)

// Lease is one stored Lease, read both ways, because which one it is depends on
// templates.
type Lease struct {
	Election fencing.ElectionLease
	Retained fencing.RetainedLease
	// Acquired and Recorded are as in Leases.
	Acquired, Recorded time.Time
}

// ElectionNames are the leader-election Leases that the template may mean. One
// that names none was written for our controller or for HAPTIC's.
func (t *Template) ElectionNames() []string {
	if t.ElectionName != "" {
		return []string{t.ElectionName}
	}
	return []string{t.Name + electionSuffix, hapticElectionName}
}

// LeasesOf finds the two Leases of a template; find gives nil where none is
// stored under a name. Standalone templates have no leader-election Lease.
func LeasesOf(t *Template, find func(name string) *Lease) Leases {
	leases := Leases{Readable: true, RetainedName: checkpoint.RetainedStateLeaseName(t.Name)}
	if r := find(leases.RetainedName); r != nil {
		leases.Retained, leases.Recorded = r.Retained, r.Recorded
	}
	candidates := t.ElectionNames()
	leases.ElectionName = candidates[0]
	if t.Standalone {
		return leases
	}
	for _, name := range candidates {
		if l := find(name); l != nil {
			leases.ElectionName = name
			leases.Election, leases.Acquired = l.Election, l.Acquired
			break
		}
	}
	return leases
}
