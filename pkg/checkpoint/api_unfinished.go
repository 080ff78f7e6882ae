package checkpoint

// EqualPayload tells whether two payloads decode to the same, whatever
// compressor wrote them.
func EqualPayload(a, b string) (bool, error) { panic("unfinished") }

func (e PodEntry) doubt(checksum, planID string) string { panic("unfinished") }

// CheckpointFacts is what remains of a checkpoint once it has been read: a few
// KiB whatever its size, and no content.
type CheckpointFacts struct {
	Meta
	// Descriptors are the declared artifacts in walk order; empty if the payload
	// cannot be read.
	Descriptors []Descriptor
}

// ChildFacts is what remains of a child once it has been read.
type ChildFacts struct {
	Meta
	Kind string
	// Sum is nil if the content cannot be read.
	Sum *Sum
}

// IngestCheckpoint reads a stored checkpoint and keeps nothing of its bytes.
func IngestCheckpoint(s *StoredCheckpoint) *CheckpointFacts { panic("unfinished") }

// IngestChild reads a stored child and keeps nothing of its bytes.
func IngestChild(s *StoredChild) *ChildFacts { panic("unfinished") }

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

// Judge computes the verdict on one checkpoint. It never stops at the first finding.
func Judge(in Input) Verdict { panic("unfinished") }

// Verify is ingestion and judgement of bytes at once. The output is restored
// only when nothing is damaged and every byte was there.
func Verify(t Template, c *StoredCheckpoint, children []*StoredChild, pointer *Pointer) (Verdict, *Output) {
	panic("unfinished")
}

// KeepRule is what decides which pointers stay.
type KeepRule struct {
	// IntendedChecksum is the content checksum the effective intent names, or empty.
	IntendedChecksum string
	// Reported holds the checksums that pods report on the ordinary output.
	Reported map[string]bool
}

// NextPointers is the pointer list after a promotion. Kept starts with the
// newest; dropped are pointers the rule would keep but MaxPointers does not.
func NextPointers(newest Pointer, previous []Pointer, keep KeepRule) (kept, dropped []Pointer) {
	panic("unfinished")
}

// Candidate is a promoted checkpoint with its verdict, in pointer order.
type Candidate struct {
	Pointer Pointer
	Verdict Verdict
}

// Selection is the checkpoint that recovery may use, or why there is none.
type Selection struct {
	// Index of the chosen candidate, or -1.
	Index   int
	Reason  SelectionReason
	Message string
}

// SelectionReason says why a selection came out as it did.
type SelectionReason string

// Select picks the checkpoint that the effective intent names: verified and
// acknowledged, whatever the other candidates are like.
func Select(candidates []Candidate, planID, checksum string) Selection { panic("unfinished") }
