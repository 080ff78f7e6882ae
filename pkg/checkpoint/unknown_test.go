package checkpoint

import (
	"testing"
	"time"
)

func TestPendingAndForbiddenObjectsAreUnknown(t *testing.T) {
	tests := []struct {
		name     string
		presence Presence
		reason   Reason
	}{
		{name: "an object that has not been seen yet", presence: Pending, reason: ReasonVerifying},
		{name: "an object there is no right to read", presence: Unreadable, reason: ReasonNotPermitted},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, fixtureOptions{})
			certificate := f.child(t, certificateRow)
			var others []*StoredChild
			for _, c := range f.children {
				if c != certificate {
					others = append(others, c)
				}
			}
			v, o := Bundle{
				Template: f.template, Checkpoint: f.checkpoint, Children: others, Pointer: f.pointer,
				Absent: func(kind, name string) Presence {
					if kind != "Secret" || name != certificate.Name {
						t.Errorf("asked for %s %s", kind, name)
					}
					return tc.presence
				},
			}.Verify()
			(&fault{state: Unknown, reasons: []Reason{tc.reason}, row: certificateRow}).check(t, f, v)
			if o != nil || v.Evidence != "" {
				t.Errorf("output restored: %t, evidence %q", o != nil, v.Evidence)
			}
		})
	}
}

func TestWithoutAStreamTheVerdictIsOpen(t *testing.T) {
	f := newFixture(t, fixtureOptions{})
	in := Input{Template: f.template, Checkpoint: IngestCheckpoint(f.checkpoint), Pointer: f.pointer}
	in.Child = func(kind, name string) (*ChildFacts, Presence) {
		for _, c := range f.children {
			if c.Kind == kind && c.Name == name {
				return IngestChild(c), Present
			}
		}
		return nil, Missing
	}
	(&fault{state: Unknown, reasons: []Reason{ReasonVerifying}}).check(t, f, Judge(in))

	// A difference elsewhere is told all the same.
	f.checkpoint.Created = time.Unix(1, 0)
	f.checkpoint.Terminating = true
	in.Checkpoint = IngestCheckpoint(f.checkpoint)
	in.ContentChecksum = func(string) (string, bool) { return "", false }
	(&fault{state: Damaged, reasons: []Reason{ReasonVerifying, ReasonTerminating}}).check(t, f, Judge(in))
}
