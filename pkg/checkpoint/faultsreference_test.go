package checkpoint

import "testing"

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
			name: "a reference stands in a list of a later release only",
			change: func(t *testing.T, f *fixture) {
				dropReference(t, f, certificateRow)
				f.checkpoint.References.Unsupported = []string{"keyedCertificates"}
			},
			state: Unknown, row: certificateRow, reasons: []Reason{ReasonUnsupportedFamily, ReasonUnsupportedFamily},
		},
		{
			name: "a set ID covers a list of a later release",
			change: func(t *testing.T, f *fixture) {
				setID("content-sha256:"+refHex("x"))(t, f)
				f.checkpoint.References.Unsupported = []string{"secretMaps"}
			},
			state: Unknown, reasons: []Reason{ReasonUnsupportedFamily},
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
