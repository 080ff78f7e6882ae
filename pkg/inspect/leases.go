package inspect

import (
	"errors"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// leasesOf returns the two Leases of a template. Files without any Lease tell
// nothing about Leases, and a record without owner and UID still names its
// template itself.
func (inv *Inventory) leasesOf(sp *space, t *templateFact, uid string) (view.Leases, error) {
	var ambiguous error
	leases := view.LeasesOf(&t.Template, func(name string) *view.Lease {
		stored := sp.leases[name]
		if stored == nil {
			return nil
		}
		ambiguous = errors.Join(ambiguous, inv.sole(KindLease, sp.namespace, name))
		l := stored.Lease
		if stored.stripped && !inv.live {
			l.Retained.Owner = fencing.TemplateRef{Name: t.Name, UID: uid}
		}
		return &l
	})
	leases.Readable = inv.leasesReadable(sp)
	return leases, ambiguous
}

func (inv *Inventory) leasesReadable(sp *space) bool {
	if inv.live {
		return !inv.unreadable[KindLease]
	}
	return len(sp.leases) > 0
}
