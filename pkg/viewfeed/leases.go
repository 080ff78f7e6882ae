package viewfeed

import (
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// Default names of the leader-election Lease: ours, and the one of HAPTIC,
// which is the same for every template.
const (
	electionSuffix     = "-leader"
	hapticElectionName = "haptic-leader"
)

// electionNames are the leader-election Leases a template may mean. A template
// that names none was written for our controller or for HAPTIC's.
func electionNames(t *templateFact) []string {
	if t.electionName != "" {
		return []string{t.electionName}
	}
	return []string{t.Name + electionSuffix, hapticElectionName}
}

// markLease marks the templates that a Lease is about.
func (sp *space) markLease(name string, d *dirty) {
	for _, t := range sp.templates {
		if name == checkpoint.RetainedStateLeaseName(t.Name) {
			d.template(sp, t.Name)
		}
		for _, election := range electionNames(t) {
			if name == election {
				d.template(sp, t.Name)
			}
		}
	}
}

// leasesOf returns the two Leases of a template.
func (sp *space) leasesOf(t *templateFact) view.Leases {
	leases := view.Leases{Readable: true, RetainedName: checkpoint.RetainedStateLeaseName(t.Name)}
	if r := sp.leases[leases.RetainedName]; r != nil {
		leases.Retained, leases.Recorded = r.retained, r.recorded
	}
	candidates := electionNames(t)
	leases.ElectionName = candidates[0]
	if t.Standalone {
		return leases
	}
	for _, name := range candidates {
		if l := sp.leases[name]; l != nil {
			leases.ElectionName = name
			leases.Election, leases.Acquired = l.election, l.acquired
			break
		}
	}
	return leases
}
