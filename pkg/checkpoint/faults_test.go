package checkpoint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fault is one change to a sound checkpoint and all that it must lead to.
type fault struct {
	name    string
	options fixtureOptions
	change  func(t *testing.T, f *fixture)
	// state is the verdict, reasons are those of all findings in order.
	state   State
	reasons []Reason
	// row is the runtime path of the only artifact whose verdict changes, of its
	// object if there is one; or several of them, or every.
	row string
	// digestsDiffer is set where bytes are bounded together, which facts are not.
	digestsDiffer bool
}

// A single fault has its own reason on the right object, and nothing else changes.
func TestSingleFaults(t *testing.T) {
	var faults []fault
	faults = append(faults, checkpointFaults()...)
	faults = append(faults, payloadFaults()...)
	faults = append(faults, referenceFaults()...)
	faults = append(faults, childFaults()...)
	if len(faults) < 60 {
		t.Errorf("the table has %d faults, at least 60 are promised", len(faults))
	}
	for _, tc := range faults {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.options)
			tc.change(t, f)
			v, o := f.verify()
			tc.check(t, f, v)
			if (o != nil) != (tc.state != Damaged && v.Evidence != "") {
				t.Errorf("state %s, output restored: %t", v.State, o != nil)
			}
			if !tc.digestsDiffer {
				if diff := cmp.Diff(v, f.judge()); diff != "" {
					t.Errorf("the verdict from digests differs from the one from bytes (-bytes +digests):\n%s", diff)
				}
			}
		})
	}
}

func (tc *fault) check(t *testing.T, f *fixture, v Verdict) {
	t.Helper()
	var reasons []Reason
	var messages []string
	for _, finding := range v.Findings {
		reasons = append(reasons, finding.Reason)
		messages = append(messages, finding.Message)
		if !strings.Contains(finding.Message, "/") || strings.Contains(finding.Message, "not really") || len(finding.Message) > 1200 {
			t.Errorf("the message names no object, shows content or is too long: %s", finding.Message)
		}
	}
	if diff := cmp.Diff(tc.reasons, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s\n%s", diff, strings.Join(messages, "\n"))
	}
	if v.State != tc.state {
		t.Errorf("state %s, want %s", v.State, tc.state)
	}
	for _, a := range v.Artifacts {
		row := strings.TrimPrefix(a.UID, "uid-")
		if row == "" {
			row = a.RuntimePath
		}
		if changed := a.State != Verified; changed != (tc.row == "every" || slices.Contains(strings.Fields(tc.row), row)) {
			t.Errorf("artifact %s is %s, %s: %s", a.RuntimePath, a.State, a.Reason, a.Message)
		}
	}
}

const (
	certificateRow = "ssl/a_example.pem"
	mapRow         = "maps/host.map"
	generalRow     = "general/503.http"
)

func checkpointFaults() []fault {
	return []fault{
		{
			name: "a byte of the configuration changed",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Content = strings.Replace(f.checkpoint.Content, "http", "HTTP", 1)
			},
			state: Damaged, reasons: []Reason{ReasonPlanDigestMismatch, ReasonSectionMismatch},
		},
		{
			name:   "the configuration grew",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Content += "\n" },
			state:  Damaged, reasons: []Reason{ReasonPlanDigestMismatch, ReasonSectionMismatch},
		},
		{
			name:   "the configuration shrank",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Content = f.checkpoint.Content[:20] },
			state:  Damaged, reasons: []Reason{ReasonPlanDigestMismatch, ReasonSectionMismatch},
		},
		{
			name:   "the configuration is gone",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Content = "" },
			state:  Damaged, reasons: []Reason{ReasonConfigurationUnreadable},
		},
		{
			name:   "a plain configuration is marked compressed",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Compressed = true },
			state:  Damaged, reasons: []Reason{ReasonConfigurationUnreadable},
		},
		{
			name:   "the path of the configuration is gone",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Path = "" },
			state:  Damaged, reasons: []Reason{ReasonConfigurationPathMissing},
		},
		{
			name:   "the content checksum changed",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Checksum = "0123456789abcdef" },
			state:  Damaged, reasons: []Reason{ReasonContentChecksumMismatch, ReasonNameMismatch, ReasonPointerMismatch, ReasonReceiptMissing},
		},
		{
			name: "the content checksum is a file checksum, as its API comment says",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Checksum = refChecksum(refConfiguration)
				f.pointer.Checksum = f.checkpoint.Checksum
				f.rename()
			},
			state: Damaged, reasons: []Reason{ReasonContentChecksumMismatch, ReasonReceiptMissing},
		},
		{
			name:   "the object has another name",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Name += "0"; f.pointer.Name += "0" },
			state:  Damaged, reasons: []Reason{ReasonNameMismatch},
		},
		{
			name: "the payload was written anew under the old name",
			change: func(t *testing.T, f *fixture) {
				f.checkpoint.RetainedPlan = refPack(t, " "+refUnpack(t, f.checkpoint.RetainedPlan))
			},
			state: Damaged, reasons: []Reason{ReasonNameMismatch},
		},
		{
			name:   "the pointer has another UID",
			change: func(_ *testing.T, f *fixture) { f.pointer.UID = "other" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the pointer has no UID, and neither has the object",
			change: func(_ *testing.T, f *fixture) { f.pointer.UID, f.checkpoint.UID = "", "" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the pointer has another checksum",
			change: func(_ *testing.T, f *fixture) { f.pointer.Checksum = "0123456789abcdef" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the pointer has another name",
			change: func(_ *testing.T, f *fixture) { f.pointer.Name = "other" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the owner has another kind",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].Kind = "ConfigMap" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the owner has another group",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].APIVersion = "example.org/v1alpha1" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the owner has another name",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].Name = "other" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the owner is an earlier template of the same name",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].UID = "earlier" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name: "the template has no UID, and neither has the owner",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Owners[0].UID, f.checkpoint.RetainedFor, f.template.UID = "", "", ""
			},
			state: Damaged, row: "every",
			reasons: append(repeat(ReasonOwnerMismatch, 7), ReasonOwnerMismatch),
		},
		{
			name:   "the owner is no controller",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].Controller = false },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the template lives in another namespace",
			change: func(_ *testing.T, f *fixture) { f.template.Namespace = "elsewhere" },
			state:  Damaged, row: "every",
			reasons: append(repeat(ReasonOwnerMismatch, 7), ReasonOwnerMismatch),
		},
		{
			name:   "the object is being deleted",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Terminating = true },
			state:  Damaged, reasons: []Reason{ReasonTerminating},
		},
		{
			name:   "the template label changed, which recovery does not look at",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.TemplateLabel = "other" },
			state:  Verified, reasons: []Reason{ReasonLabelMismatch},
		},
		{
			name:   "the retained-for label is gone",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.RetainedFor = "" },
			state:  Verified, reasons: []Reason{ReasonLabelMismatch},
		},
		{
			name:   "there is no receipt",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Receipts = nil },
			state:  Verified, reasons: []Reason{ReasonReceiptMissing},
		},
		{
			name:   "the receipt is of a scheduled reload",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Receipts[0].Mode = "scheduled" },
			state:  Verified, reasons: []Reason{ReasonReceiptMissing},
		},
		{
			name: "two entries and no receipt among them",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Receipts = []PodEntry{{PodName: "a"}, {PodName: "b"}}
			},
			state: Verified, reasons: []Reason{ReasonReceiptMissing},
		},
	}
}

func repeat(reason Reason, n int) []Reason {
	reasons := make([]Reason, n)
	for i := range reasons {
		reasons[i] = reason
	}
	return reasons
}

func referenceFaults() []fault {
	return []fault{
		{
			name:   "a promoted checkpoint without references",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.References = nil },
			state:  Damaged, row: "every", reasons: append([]Reason{ReasonReferencesMissing}, repeat(ReasonUncommitted, 7)...),
		},
		{
			name:   "a checkpoint in publication has no references yet",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.References, f.pointer = nil, nil },
			state:  Unknown, row: "every", reasons: repeat(ReasonUncommitted, 8),
		},
		{
			name:   "the set ID annotation changed",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.SetIDAnnotation = "content-sha256:" + refHex("x") },
			state:  Damaged, reasons: []Reason{ReasonSetIDMismatch},
		},
		{
			name: "the set ID annotation is ahead of an unpromoted checkpoint's references",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.SetIDAnnotation, f.pointer = "content-sha256:"+refHex("x"), nil
			},
			state: Unknown, reasons: []Reason{ReasonUncommitted},
		},
		{
			name:   "the committed set ID changed",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.References.SetID = "content-sha256:" + refHex("x") },
			state:  Damaged, reasons: []Reason{ReasonSetIDMismatch, ReasonSetIDMismatch},
		},
		{
			name:   "annotation and committed set ID changed alike",
			change: setID("content-sha256:" + refHex("x")),
			state:  Damaged, reasons: []Reason{ReasonSetIDMismatch},
		},
		{
			name:    "somebody else's set ID is not ours to verify",
			options: fixtureOptions{foreign: true},
			change:  setID("content-sha256:" + refHex("x")),
			state:   Verified, reasons: []Reason{ReasonSetIdentityUnverifiable},
		},
		{
			name:   "a set ID of the form before ADR-0031",
			change: setID("sha256:" + refHex("x")),
			state:  Unknown, reasons: []Reason{ReasonUnsupportedSetID},
		},
		{
			name:   "a reference is gone",
			change: func(t *testing.T, f *fixture) { dropReference(t, f, certificateRow) },
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonArtifactMissing},
		},
		{
			name:   "a reference is there twice",
			change: func(t *testing.T, f *fixture) { addReference(f, *f.reference(t, mapRow)) },
			state:  Damaged, reasons: []Reason{ReasonDuplicateReference},
		},
		{
			name:   "a reference has another kind",
			change: func(t *testing.T, f *fixture) { f.reference(t, certificateRow).Kind = "HAProxyMapFile" },
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonReferenceInvalid, ReasonArtifactMissing},
		},
		{
			name:   "a reference has another namespace",
			change: func(t *testing.T, f *fixture) { f.reference(t, mapRow).Namespace = "elsewhere" },
			state:  Damaged, row: mapRow, reasons: []Reason{ReasonReferenceInvalid, ReasonArtifactMissing},
		},
		{
			name:   "a reference has no namespace",
			change: func(t *testing.T, f *fixture) { f.reference(t, mapRow).Namespace = "" },
			state:  Damaged, row: mapRow, reasons: []Reason{ReasonReferenceInvalid, ReasonArtifactMissing},
		},
		{
			name:   "a reference has no name",
			change: func(t *testing.T, f *fixture) { f.reference(t, mapRow).Name = "" },
			state:  Damaged, row: mapRow, reasons: []Reason{ReasonReferenceInvalid, ReasonArtifactMissing},
		},
		{
			name:   "a reference has the name of nothing",
			change: func(t *testing.T, f *fixture) { f.reference(t, certificateRow).Name = "nothing" },
			state:  Damaged, row: certificateRow, reasons: []Reason{ReasonChildMissing},
		},
		{
			name:   "a reference list of a later release",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.References.Unsupported = []string{"secretMaps"} },
			state:  Unknown, reasons: []Reason{ReasonUnsupportedFamily},
		},
		{
			name: "a child of another set is referenced too",
			change: func(t *testing.T, f *fixture) {
				f.files = append(f.files, refFile{family: 3, name: "x.pem", path: "/x.pem", runtime: "x.pem", content: "x"})
				f.addChild(t, f.files[7])
				f.files = f.files[:7]
			},
			state: Damaged, row: "x.pem", reasons: []Reason{ReasonUndeclaredChild},
		},
		{
			name: "the order of references means nothing",
			change: func(_ *testing.T, f *fixture) {
				l := f.checkpoint.References.Lists
				l[0], l[1], l[2], l[6] = l[1], l[0], l[6], l[2]
			},
			state: Verified,
		},
		{
			name: "more references than anybody applies",
			change: func(t *testing.T, f *fixture) {
				for len(f.checkpoint.References.Lists) <= MaxFiles {
					addReference(f, *f.reference(t, mapRow))
				}
			},
			state: Damaged, reasons: append([]Reason{ReasonTooManyFiles}, repeat(ReasonDuplicateReference, maxFindings-1)...),
		},
	}
}

func setID(id string) func(*testing.T, *fixture) {
	return func(_ *testing.T, f *fixture) {
		f.checkpoint.SetIDAnnotation, f.checkpoint.References.SetID = id, id
	}
}

func addReference(f *fixture, ref Reference) {
	f.checkpoint.References.Lists = append(f.checkpoint.References.Lists, ref)
}

func dropReference(t *testing.T, f *fixture, runtime string) {
	t.Helper()
	name := f.reference(t, runtime).Name
	var left []Reference
	for _, ref := range f.checkpoint.References.Lists {
		if ref.Name != name {
			left = append(left, ref)
		}
	}
	f.checkpoint.References.Lists = left
}

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
