package viewfeed

import (
	"slices"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// markLease marks the templates that a Lease is about.
func (sp *space) markLease(name string, d *dirty) {
	for _, t := range sp.templates {
		if name == checkpoint.RetainedStateLeaseName(t.Name) || slices.Contains(t.ElectionNames(), name) {
			d.template(sp, t.Name)
		}
	}
}

// leasesOf returns the two Leases of a template.
func (sp *space) leasesOf(t *templateFact) view.Leases {
	return view.LeasesOf(&t.Template, func(name string) *view.Lease {
		if l := sp.leases[name]; l != nil {
			return &l.Lease
		}
		return nil
	})
}
