package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

func TestLeasesOf(t *testing.T) {
	lease := func(holder string) *Lease {
		return &Lease{Election: fencing.ElectionLease{Exists: true, Holder: holder}}
	}
	tests := []struct {
		name     string
		template Template
		stored   map[string]*Lease
		// want are the name of the leader-election Lease and its holder.
		want []string
	}{
		{name: "nothing is stored", template: Template{Name: "web"}, want: []string{"web-leader", ""}},
		{
			name: "our default comes first", template: Template{Name: "web"},
			stored: map[string]*Lease{"web-leader": lease("ours"), "haptic-leader": lease("theirs")}, want: []string{"web-leader", "ours"},
		},
		{
			name: "HAPTIC's default is looked for too", template: Template{Name: "web"},
			stored: map[string]*Lease{"haptic-leader": lease("theirs")}, want: []string{"haptic-leader", "theirs"},
		},
		{
			name: "a name in the template rules out both", template: Template{Name: "web", ElectionName: "own"},
			stored: map[string]*Lease{"haptic-leader": lease("theirs")}, want: []string{"own", ""},
		},
		{
			name: "a standalone template has none", template: Template{Name: "web", Standalone: true},
			stored: map[string]*Lease{"web-leader": lease("left over")}, want: []string{"web-leader", ""},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := LeasesOf(&tc.template, func(name string) *Lease { return tc.stored[name] })
			if diff := cmp.Diff(tc.want, []string{got.ElectionName, got.Election.Holder}); diff != "" {
				t.Errorf("leader-election Lease (-want +got):\n%s", diff)
			}
			if got.RetainedName != "web-retained-state" || !got.Readable {
				t.Errorf("retained-state Lease %q, readable %t", got.RetainedName, got.Readable)
			}
		})
	}
}

func TestPointerTo(t *testing.T) {
	o := &Output{Pointers: []checkpoint.Pointer{{Name: "a"}, {Name: "b", UID: "2"}}}
	if got := o.PointerTo("b"); got == nil || got.UID != "2" {
		t.Errorf("PointerTo(b): %+v", got)
	}
	if got := o.PointerTo("c"); got != nil {
		t.Errorf("PointerTo(c): %+v, want none", got)
	}
	if got := (*Output)(nil).PointerTo("a"); got != nil {
		t.Errorf("PointerTo without an output: %+v, want none", got)
	}
}
