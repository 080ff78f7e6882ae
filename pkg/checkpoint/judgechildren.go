package checkpoint

import (
	"strings"
)

// item is one row of the verdict: a declared artifact, a referenced object, or
// normally both.
type item struct {
	Descriptor
	declared bool
	// ref and child are nil without a reference, or where the object is not known.
	ref   *Reference
	child *ChildFacts
	// shared tells that the template owns the child, or ought to: every child that
	// does not claim to be a checkpoint's.
	shared   bool
	findings findings
}

func (it *item) verdict() ArtifactVerdict {
	v := ArtifactVerdict{Descriptor: it.Descriptor, Shared: it.shared}
	v.State, v.Reason, v.Message = it.findings.summary()
	if it.ref != nil {
		v.Kind, v.Object = it.ref.Kind, it.ref.Name
	}
	if it.child != nil {
		v.UID = it.child.UID
		if it.child.Sum != nil {
			size := it.child.Sum.Size
			v.Size, v.Checksum = &size, it.child.fileChecksum()
		}
	}
	return v
}

// fileChecksum is that of the stored bytes. Mostly it is the one that the object
// states, and verdicts of thousands of checkpoints need not each have a copy.
func (f *ChildFacts) fileChecksum() string {
	if computed := f.Sum.FileChecksum(); computed != f.Checksum {
		return computed
	}
	return f.Checksum
}

// judgeReferences checks the reference lists and looks every child up once. Each
// sound reference becomes an item; judgeArtifacts finds out what it stores.
func (j *judge) judgeReferences() {
	f := j.facts
	refs := f.References
	object := f.object()
	if refs == nil {
		if j.Pointer == nil {
			j.before.unknown(ReasonUncommitted, object, "status.auxiliaryFiles is absent: publication is in progress or was interrupted")
		} else {
			j.before.damaged(ReasonReferencesMissing, object, "status.auxiliaryFiles is absent, and a pointer names the checkpoint")
		}
		return
	}
	j.judgeSetIDs(refs)
	for _, list := range refs.Unsupported {
		j.before.unknown(ReasonUnsupportedFamily, object, "status.auxiliaryFiles: list %s is of a later release", shown(list))
	}
	if len(refs.Lists) > MaxFiles {
		j.before.damaged(ReasonTooManyFiles, object, "status.auxiliaryFiles: more than %d references", MaxFiles)
	}
	seen := make(map[Reference]bool, len(refs.Lists))
	for i := range refs.Lists[:min(len(refs.Lists), MaxFiles)] {
		ref := &refs.Lists[i]
		key := Reference{Kind: ref.Kind, Name: ref.Name}
		if !j.checkReference(ref, seen[key]) {
			continue
		}
		seen[key] = true
		it := item{ref: ref}
		j.lookUp(&it)
		j.items = append(j.items, it)
	}
}

// judgeSetIDs compares annotation and committed set ID. Before promotion a
// difference only says that the commit is still to come.
func (j *judge) judgeSetIDs(refs *References) {
	f := j.facts
	object := f.object()
	switch {
	case refs.SetID != f.SetIDAnnotation && j.Pointer == nil:
		j.before.unknown(ReasonUncommitted, object, "status.auxiliaryFiles.setID: expected %s as annotated, found %s",
			shown(f.SetIDAnnotation), shown(refs.SetID))
	case refs.SetID != f.SetIDAnnotation:
		j.before.mismatch(ReasonSetIDMismatch, object, "status.auxiliaryFiles.setID as annotated", f.SetIDAnnotation, refs.SetID)
	case !strings.HasPrefix(refs.SetID, setIDPrefix):
		j.before.unknown(ReasonUnsupportedSetID, object, "status.auxiliaryFiles.setID: expected prefix %s, found %s",
			shown(setIDPrefix), shown(refs.SetID))
	}
}

// checkReference tells whether a reference can be followed. One that is repeated
// was followed already.
func (j *judge) checkReference(ref *Reference, repeated bool) bool {
	object := j.facts.object()
	named := objectName(ref.Kind, ref.Name)
	switch {
	case ref.Name == "":
		j.before.damaged(ReasonReferenceInvalid, object, "status.auxiliaryFiles: a %s reference has no name", ref.List)
	case ref.Kind != ref.List.Kind():
		j.before.damaged(ReasonReferenceInvalid, object, "status.auxiliaryFiles: reference to %s: expected kind %s, found %s",
			named, shown(ref.List.Kind()), shown(ref.Kind))
	case ref.Namespace != j.facts.Namespace:
		j.before.damaged(ReasonReferenceInvalid, object, "status.auxiliaryFiles: reference to %s: expected namespace %s, found %s",
			named, shown(j.facts.Namespace), shown(ref.Namespace))
	case repeated:
		j.before.damaged(ReasonDuplicateReference, object, "status.auxiliaryFiles: %s is referenced twice", named)
	default:
		return true
	}
	return false
}

// lookUp finds the referenced object and checks it for itself.
func (j *judge) lookUp(it *item) {
	object := objectName(it.ref.Kind, it.ref.Name)
	child, presence := j.Child(it.ref.Kind, it.ref.Name)
	switch presence {
	case Present:
		it.child = child
		j.judgeChild(it)
	case Unreadable:
		it.findings.unknown(ReasonNotPermitted, object, "there is no right to read it")
	case Pending:
		it.findings.unknown(ReasonVerifying, object, "it has not been read yet")
	default:
		it.findings.damaged(ReasonChildMissing, object, "it is referenced and does not exist")
	}
}

func (j *judge) judgeChild(it *item) {
	child := it.child
	object := child.object()
	it.findings = append(it.findings, child.findings...)
	if group(child.Family) != it.ref.List {
		it.findings.damaged(ReasonFamilyMismatch, object, "it stores family %s and stands in the list of family %s", child.Family, it.ref.List)
	}
	if child.Terminating {
		it.findings.damaged(ReasonTerminating, object, "the object is being deleted")
	}
	j.judgeChildOwner(it)
	j.judgeChildName(it)
}

// group is the family of the reference list that a family stands in.
func group(f Family) Family {
	if f == GeneralCA {
		return General
	}
	return f
}

// judgeChildOwner tells the two generations apart: children of checkpoints
// published before sharing, and children the template owns.
func (j *judge) judgeChildOwner(it *item) {
	owner := it.child.controller()
	want := templateOwner(j.Template)
	it.shared = true
	if owner != nil && owner.UID != j.Template.UID && (owner.UID == j.facts.UID || owner.Kind == KindCfg) {
		want = checkpointOwner(j.facts)
		it.shared = false
	}
	if problem := ownerProblem(it.child.Meta, want); problem != "" {
		it.findings.damaged(ReasonOwnerMismatch, it.child.object(), "%s", problem)
	}
}

// judgeChildName requires the content digest in the name: at its very end, before
// the checkpoint's own suffix, where the checkpoint owns the child; anywhere in a
// shared name, since other publishers' form of it is not published.
func (j *judge) judgeChildName(it *item) {
	child := it.child
	if child.Sum == nil || !child.Family.Valid() {
		return
	}
	if j.nameCarries(it, child.Sum.FileChecksum()) || j.nameCarries(it, child.Checksum) {
		// A checksum that is wrong while the name is right has its finding already.
		return
	}
	object := child.object()
	expected := j.nameEnd(it, child.Sum.FileChecksum())
	if it.shared && !carriesContentDigest(child.Name) {
		it.findings.unknown(ReasonNameFormUnknown, object, "metadata.name has no content digest in a form known to us; expected %s in it", shown(expected))
		return
	}
	it.findings.damaged(ReasonChildNameMismatch, object, "metadata.name: expected %s in it", shown(expected))
}

// nameEnd is what the name must end with, or hold where the child is shared.
func (j *judge) nameEnd(it *item, checksum string) string {
	child := it.child
	suffix := ContentSuffix(child.Kind, child.Path, checksum, child.Family.IsCA())
	if it.shared {
		return suffix
	}
	return suffix + retainedInfix + j.facts.binding
}

func (j *judge) nameCarries(it *item, checksum string) bool {
	end := j.nameEnd(it, checksum)
	if it.shared {
		return strings.Contains(it.child.Name, end)
	}
	return strings.HasSuffix(it.child.Name, end)
}

// carriesContentDigest tells whether a name holds the digest of some content.
func carriesContentDigest(name string) bool {
	for {
		_, after, found := strings.Cut(name, contentInfix)
		if !found {
			return false
		}
		if len(after) >= 64 && strings.Trim(after[:64], "0123456789abcdef") == "" {
			return true
		}
		name = after
	}
}
