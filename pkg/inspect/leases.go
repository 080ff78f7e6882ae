package inspect

import (
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
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
func (t *templateFact) electionNames() []string {
	if t.electionName != "" {
		return []string{t.electionName}
	}
	return []string{t.Name + electionSuffix, hapticElectionName}
}

// leasesOf returns the two Leases of a template. Files without any Lease tell
// nothing about Leases, and a record without owner and UID still names its
// template itself.
func (inv *Inventory) leasesOf(sp *space, t *templateFact, uid string) (view.Leases, error) {
	leases := view.Leases{Readable: inv.leasesReadable(sp), RetainedName: checkpoint.RetainedStateLeaseName(t.Name)}
	if r := sp.leases[leases.RetainedName]; r != nil {
		leases.Retained, leases.Recorded = r.retained, r.recorded
		if r.stripped && !inv.live {
			leases.Retained.Owner = fencing.TemplateRef{Name: t.Name, UID: uid}
		}
	}
	candidates := t.electionNames()
	leases.ElectionName = candidates[0]
	if err := inv.sole(KindLease, sp.namespace, leases.RetainedName); err != nil || t.Standalone {
		return leases, err
	}
	for _, name := range candidates {
		if l := sp.leases[name]; l != nil {
			leases.ElectionName = name
			leases.Election, leases.Acquired = l.election, l.acquired
			break
		}
	}
	return leases, inv.sole(KindLease, sp.namespace, leases.ElectionName)
}

func (inv *Inventory) leasesReadable(sp *space) bool {
	if inv.live {
		return !inv.unreadable[KindLease]
	}
	return len(sp.leases) > 0
}
