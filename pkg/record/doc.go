// Package record translates between stored objects and the values that the
// pure packages reason about: outputs and their files to package checkpoint,
// Leases to package fencing and back.
//
// It promises that nothing a check depends on is lost on the way, and that
// what does not parse is reported with the object, never guessed. It verifies
// nothing itself: fields are carried over as they are stored. Unknown fields of
// later releases are not seen, since the typed objects do not have them, but for
// reference lists, whose names are; an artifact of a later release shows up by
// its family in the payload.
//
// A translated Secret still holds its bytes. It is meant for ingestion, which
// keeps digests only, and goes no further.
package record
