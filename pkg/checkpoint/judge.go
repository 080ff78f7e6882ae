package checkpoint

import (
	"strings"
)

// Input is everything a verdict depends on.
type Input struct {
	Template   Template
	Checkpoint *CheckpointFacts
	// Child looks a referenced object up in the checkpoint's namespace.
	Child func(kind, name string) (*ChildFacts, Presence)
	// Pointer is the promoted pointer that names the checkpoint; nil without one.
	Pointer *Pointer
	// ContentChecksum tells the content checksum of the bytes with this evidence,
	// remembered from a stream. Nil, or not known, leaves the verdict Unknown.
	ContentChecksum func(evidence string) (checksum string, known bool)
}

// judge is one judgement in progress.
type judge struct {
	Input
	facts *CheckpointFacts
	// before are findings on content and children, after those on identity: a
	// changed payload tells what changed before it tells that the name no longer fits.
	before, after findings
	items         []item
	// partDamaged tells that the bytes or the declaration of some part have failed
	// a check of their own. What binds the parts together then fails too, which
	// would tell nothing new.
	partDamaged bool
}

// Judge computes the verdict on one checkpoint. It never stops at the first
// finding, and leaves out only findings that repeat another: where a part is
// damaged, evidence, set ID and content checksum of the whole differ by necessity.
func Judge(in Input) Verdict {
	return newJudge(in).judge()
}

func newJudge(in Input) *judge {
	return &judge{Input: in, facts: in.Checkpoint}
}

func (j *judge) judge() Verdict {
	j.before = append(j.before, j.facts.findings...)
	j.partDamaged = j.before.worst() == Damaged
	j.judgeReferences()
	j.judgeArtifacts()
	whole := j.judgeWhole()
	j.judgeIdentity()

	v := Verdict{
		Checksum:          j.facts.Checksum,
		ConfigurationPath: j.facts.Path,
		Configuration:     j.facts.Configuration,
		PlanID:            j.facts.PlanID,
		Evidence:          whole,
		EvidenceStored:    j.facts.StoredEvidence != "",
		UnknownMembers:    j.facts.UnknownMembers,
		Receipt:           j.judgeReceipt(),
	}
	v.Acknowledged = v.Receipt != nil
	all := j.before
	for i := range j.items {
		all = append(all, j.items[i].findings...)
		v.Artifacts = append(v.Artifacts, j.items[i].verdict())
	}
	all = append(all, j.after...)
	v.State, v.Reason, v.Message = all.summary()
	v.Findings = all
	return v
}

// judgeWhole compares what binds configuration, plan and artifacts together. It
// returns the evidence of what is stored, or nothing where that is incomplete.
func (j *judge) judgeWhole() string {
	f := j.facts
	sums, size, complete := j.sums()
	if size > MaxTotal {
		j.after.damaged(ReasonTooLarge, f.object(), "configuration and artifacts are %d bytes together, the bound is %d", size, MaxTotal)
	}
	if !complete {
		return ""
	}
	evidence := Evidence(*f.Configuration, f.planJSON, sums)
	if j.partDamaged {
		return evidence
	}
	if f.StoredEvidence != "" && f.StoredEvidence != evidence {
		j.after.mismatch(ReasonEvidenceMismatch, f.object(), "spec.retainedPlan: evidence", f.StoredEvidence, evidence)
		return evidence
	}
	j.judgeSetIdentity(sums)
	j.judgeContentChecksum(evidence)
	return evidence
}

// sums are the artifacts' sums in walk order, and whether all are known.
func (j *judge) sums() (sums []DescribedSum, size int64, complete bool) {
	complete = j.facts.readable && j.facts.Configuration != nil
	if j.facts.Configuration != nil {
		size = j.facts.Configuration.Size
	}
	for i := range j.items {
		it := &j.items[i]
		if it.child != nil && it.child.Sum != nil {
			size += it.child.Sum.Size
		}
		if !it.declared {
			continue
		}
		if it.child == nil || it.child.Sum == nil {
			complete = false
			continue
		}
		sums = append(sums, DescribedSum{Descriptor: it.Descriptor, Sum: *it.child.Sum})
	}
	return sums, size, complete
}

// judgeSetIdentity compares the set ID with our candidate for its form. Where
// the checkpoint carries evidence, it was written under that form; elsewhere a
// difference proves nothing, and beside lists of a later release none is known.
func (j *judge) judgeSetIdentity(sums []DescribedSum) {
	f := j.facts
	if f.References == nil || len(f.References.Unsupported) > 0 || !strings.HasPrefix(f.References.SetID, setIDPrefix) {
		return
	}
	descriptors := make([]Descriptor, 0, len(sums))
	checksums := make([]string, 0, len(sums))
	for i := range sums {
		descriptors = append(descriptors, sums[i].Descriptor)
		checksums = append(checksums, sums[i].FileChecksum())
	}
	expected := SetID(descriptors, checksums)
	switch {
	case f.References.SetID == expected:
	case f.StoredEvidence != "":
		j.after.mismatch(ReasonSetIDMismatch, f.object(), "status.auxiliaryFiles.setID", expected, f.References.SetID)
	default:
		j.after.note(ReasonSetIdentityUnverifiable, f.object(),
			"status.auxiliaryFiles.setID: %s is not the form known to us, which gives %s", shown(f.References.SetID), shown(expected))
	}
}

func (j *judge) judgeContentChecksum(evidence string) {
	f := j.facts
	checksum, known := "", false
	if j.ContentChecksum != nil {
		checksum, known = j.ContentChecksum(evidence)
	}
	switch {
	case !known:
		j.after.unknown(ReasonVerifying, f.object(), "spec.checksum: the content has not been read as a whole yet")
	case checksum != f.Checksum:
		j.after.mismatch(ReasonContentChecksumMismatch, f.object(), "spec.checksum", f.Checksum, checksum)
	}
}

// judgeIdentity checks name, pointer, owner and labels of the checkpoint.
func (j *judge) judgeIdentity() {
	f, t := j.facts, j.Template
	object := f.object()
	if f.binding != "" {
		if name := checkpointNameFor(t.Name, f.binding); name != f.Name {
			j.after.mismatch(ReasonNameMismatch, object, "metadata.name", name, f.Name)
		}
	}
	if p := j.Pointer; p != nil {
		j.judgePointer(p)
	}
	if problem := ownerProblem(f.Meta, templateOwner(t)); problem != "" {
		j.after.damaged(ReasonOwnerMismatch, object, "%s", problem)
	}
	if f.Terminating {
		j.after.damaged(ReasonTerminating, object, "the object is being deleted")
	}
	if f.TemplateLabel != t.Name && f.TemplateLabel != LabelValue(t.Name) {
		j.after.note(ReasonLabelMismatch, object, "label template-config: expected %s, found %s", shown(t.Name), shown(f.TemplateLabel))
	}
	if f.RetainedFor != t.UID {
		j.after.note(ReasonLabelMismatch, object, "label retained-for: expected %s, found %s", shown(t.UID), shown(f.RetainedFor))
	}
}

func (j *judge) judgePointer(p *Pointer) {
	f := j.facts
	object := f.object()
	if p.Name != f.Name {
		j.after.mismatch(ReasonPointerMismatch, object, "name in the pointer", f.Name, p.Name)
	}
	if p.UID == "" || p.UID != f.UID {
		j.after.mismatch(ReasonPointerMismatch, object, "uid in the pointer", f.UID, p.UID)
	}
	if p.Checksum != f.Checksum {
		j.after.mismatch(ReasonPointerMismatch, object, "checksum in the pointer", f.Checksum, p.Checksum)
	}
}

// judgeReceipt looks for a receipt. Its absence lowers no verdict: whether the
// bytes are sound and whether a worker ran them are two questions.
func (j *judge) judgeReceipt() *PodEntry {
	f := j.facts
	if found := receipt(f.Receipts, f.Checksum, f.PlanID); found != nil {
		return found
	}
	switch len(f.Receipts) {
	case 0:
		j.after.note(ReasonReceiptMissing, f.object(), "status.deployedToPods is empty")
	case 1:
		j.after.note(ReasonReceiptMissing, f.object(), "status.deployedToPods: the entry of pod %s proves nothing: %s",
			shown(f.Receipts[0].PodName), f.Receipts[0].doubt(f.Checksum, f.PlanID))
	default:
		j.after.note(ReasonReceiptMissing, f.object(), "status.deployedToPods: none of %d entries proves that a worker ran the output", len(f.Receipts))
	}
	return nil
}
