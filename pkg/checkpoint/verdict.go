package checkpoint

// State is how far something stored can be relied on.
type State string

const (
	// Verified: every check that exists was made and passed.
	Verified State = "Verified"
	// Damaged: something stored is not what its names and checksums say.
	Damaged State = "Damaged"
	// Unknown: nothing is known to be wrong, but not everything could be checked.
	Unknown State = "Unknown"
	// Note is the state of findings that are worth telling and lower no verdict.
	Note State = "Note"
)

// Finding is one result of one check. The message names object, field, expected
// and found value, and never holds content.
type Finding struct {
	State   State
	Reason  Reason
	Message string
}

// Verdict is everything that verification found out about one checkpoint.
type Verdict struct {
	// State, Reason and Message sum up: the first finding of the worst state.
	State   State
	Reason  Reason
	Message string
	// Findings are all findings, those on artifacts included, in checking order.
	Findings []Finding
	// Artifacts has one entry per declared artifact in walk order, then one per
	// referenced object that no declaration claims.
	Artifacts []ArtifactVerdict

	// Checksum is the declared content checksum.
	Checksum string
	// ConfigurationPath is declared; Configuration is nil if it cannot be read.
	ConfigurationPath string
	Configuration     *Sum
	// PlanID is empty if the payload cannot be read.
	PlanID string
	// Evidence is computed from what is stored now; empty if that is incomplete.
	// EvidenceStored tells whether the checkpoint carries evidence of its own.
	Evidence       string
	EvidenceStored bool
	// UnknownMembers are plan members of a later release, covered by the plan ID.
	UnknownMembers []string
	// Acknowledged tells whether Receipt proves that a worker ran the output.
	Acknowledged bool
	Receipt      *PodEntry
}

// ArtifactVerdict is the part of a verdict that concerns one artifact.
type ArtifactVerdict struct {
	Descriptor
	// Size and Checksum describe the content as stored now; nil and empty if it
	// cannot be read.
	Size     *int64
	Checksum string
	// Kind, Object and UID name the object that stores it; empty if none is referenced.
	Kind, Object, UID string
	// Shared tells that the template owns the object.
	Shared  bool
	State   State
	Reason  Reason
	Message string
}

// Presence is what a lookup of a child can tell.
type Presence uint8

const (
	// Missing: the object does not exist.
	Missing Presence = iota
	// Present: the object's facts are known.
	Present
	// Unreadable: there is no right to read objects of that kind.
	Unreadable
	// Pending: the object has not been seen yet, which may change any moment.
	Pending
)
