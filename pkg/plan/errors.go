package plan

import "fmt"

// Bounds of one plan. A plan beyond them could never have been applied.
const (
	// MaxSections is the number of sections an agent takes.
	MaxSections = 65536
	// MaxFiles is the number of files an agent takes.
	MaxFiles = 4096
	// MaxJSON is the size of a plan's JSON text in bytes.
	MaxJSON = 64 << 20
	// MaxMemory bounds what the decoded values of one plan may occupy beside its
	// text: short JSON can stand for large structures.
	MaxMemory = 64 << 20
	// MaxNotes bounds each list of remarks in Decoded.
	MaxNotes = 16
)

// SyntaxError says that a text is not the JSON of a plan.
type SyntaxError struct {
	Offset  int
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("at byte %d: %s", e.Offset, e.Problem)
}

// SchemaError says that a plan is of a format this package does not know. It
// is not damage: a later release may have written it.
type SchemaError struct {
	Version int64
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema version is %d, known is %d", e.Version, SchemaVersion)
}

// What a BoundError counts where callers branch on it.
const (
	BoundSections = "sections"
	BoundFiles    = "files"
)

// BoundError says that a value is larger than the bound named.
type BoundError struct {
	// What was too much: BoundSections, BoundFiles, or a phrase for bytes or nesting.
	What  string
	Limit int64
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("more than %d %s", e.Limit, e.What)
}
