package checkpoint

import "time"

// Owner is one owner reference.
type Owner struct {
	APIVersion, Kind, Name, UID string
	Controller                  bool
}

// Meta is what identifies a stored object and its owners.
type Meta struct {
	Namespace, Name, UID, ResourceVersion string
	Generation                            int64
	Created                               time.Time
	Terminating                           bool
	Owners                                []Owner
}

// Template is the root of trust: everything stored for it must be owned by it.
type Template struct {
	Namespace, Name, UID string
}

// StoredCheckpoint is one checkpoint object as plain values.
type StoredCheckpoint struct {
	Meta
	// TemplateLabel and RetainedFor are the values of the two labels.
	TemplateLabel, RetainedFor string
	// Path, Content, Checksum, Compressed and RetainedPlan are the spec.
	Path, Content, Checksum string
	Compressed              bool
	RetainedPlan            string
	// SetIDAnnotation is the annotation that must equal References.SetID.
	SetIDAnnotation string
	// References is nil until the publisher has committed them.
	References *References
	// Receipts are the per-pod entries; a checkpoint normally has one.
	Receipts []PodEntry
}

// StoredChild is one object that stores an artifact, as plain values.
type StoredChild struct {
	Meta
	// Kind of the object, and the family its fields declare.
	Kind   string
	Family Family
	// Path is spec.path, or what a Secret declares; FileName is spec.fileName of
	// general files and empty for all others.
	Path, FileName string
	// Text is the stored content, encoded as Compressed says.
	Text string
	// Checksum is the declared file checksum.
	Checksum          string
	Empty, Compressed bool
	// Problems are findings on the shape of the object that its translator made,
	// such as a Secret with a third key.
	Problems []Finding
}

// Reference names one child in one of the reference lists.
type Reference struct {
	// List is the family of the list the reference stands in. The list of general
	// files holds CA bundles too, so General stands for both.
	List                  Family
	Kind, Name, Namespace string
}

// References are the committed references of a checkpoint, in stored order.
type References struct {
	SetID string
	Lists []Reference
	// Unsupported are the names of non-empty reference lists of a later release.
	Unsupported []string
}

// PodEntry is one pod's account of an output.
type PodEntry struct {
	PodName, PodUID, PodRuntimeID                 string
	Checksum                                      string
	AppliedPlanID, RunningPlanID, WorkerOpsPlanID string
	Mode, LastError                               string
}

// Confirms tells whether the entry is a receipt: proof that the pod's worker ran
// the output with this content checksum and plan ID. A scheduled reload proves
// nothing yet. It is history: the pod may be gone.
func (e PodEntry) Confirms(checksum, planID string) bool {
	return e.doubt(checksum, planID) == ""
}

// Pointer is one committed checkpoint pointer.
type Pointer struct {
	Name, UID, Checksum string
}
