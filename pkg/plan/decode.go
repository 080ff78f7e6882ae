package plan

// Decoded is a plan that somebody else wrote, and what its text told beyond
// the plan.
type Decoded struct {
	Plan *Plan
	// ComputedID is what the plan's ID must be. It equals Plan.ID for a sound plan.
	ComputedID string
	// UnknownMembers are members of a later release, as paths such as
	// "backends.*.color". The computed ID covers them. At most MaxNotes are kept.
	UnknownMembers []string
	// NonCanonical are spellings that two readers may read differently: repeated
	// members and members in another letter case. At most MaxNotes are kept.
	NonCanonical []string
}

// Decode reads plan JSON. A plan whose ID does not match is returned, not an
// error: whoever asks compares Plan.ID with ComputedID. Errors are a
// *SyntaxError, a *SchemaError or a *BoundError.
func Decode(raw []byte) (*Decoded, error) {
	panic("unfinished")
}
