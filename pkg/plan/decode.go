package plan

import (
	"bytes"
	"encoding/json"

	"github.com/cespare/xxhash/v2"
)

// Decoded is a plan that somebody else wrote, and what its text told beyond
// the plan.
type Decoded struct {
	Plan *Plan
	// ComputedID is what the plan's ID must be. It equals Plan.ID for a sound plan.
	ComputedID string
	// UnknownMembers are members of a later release, as paths such as
	// "backends.*.color". At most MaxNotes are kept. The ID of such a plan covers
	// them if the release that wrote it computed the ID over them.
	UnknownMembers []string
	// NonCanonical are spellings that two readers may read differently: repeated
	// members and members in another letter case. At most MaxNotes are kept.
	NonCanonical []string
}

// Decode reads plan JSON. A plan whose ID does not match is returned, not an
// error: whoever asks compares Plan.ID with ComputedID. Errors are a
// *SyntaxError, a *SchemaError or a *BoundError.
func Decode(raw []byte) (*Decoded, error) {
	return DecodeString(string(raw))
}

// DecodeString is Decode of a string, with which the plan then shares memory.
func DecodeString(text string) (*Decoded, error) {
	if len(text) > MaxJSON {
		return nil, &BoundError{What: "bytes of plan JSON", Limit: MaxJSON}
	}
	r := reader{Scanner: NewScanner(text)}
	p := r.plan()
	if err := r.Err(); err != nil {
		return nil, schemaFirst(text, err)
	}
	return r.decoded(p, text, 0)
}

// Plan reads a plan that is one value of a larger text, with which it then shares
// memory, and returns its own text too. Nothing is read twice unless the plan
// cannot be read; then the scanner stands behind it all the same, if only its
// members and not its JSON are at fault.
func (s *Scanner) Plan() (*Decoded, string, error) {
	s.peek()
	start := s.pos
	outer := *s
	s.unknown, s.nonCanonical = nil, nil
	r := reader{Scanner: s}
	p := r.plan()
	if s.err != nil {
		*s = outer
		text := s.Raw()
		if s.err != nil {
			return nil, "", s.err
		}
		d, err := DecodeString(text)
		return d, text, err
	}
	text := s.text[start:s.pos]
	d, err := r.decoded(p, text, start)
	s.unknown, s.nonCanonical = outer.unknown, outer.nonCanonical
	return d, text, err
}

// decoded judges a plan that was read from text, which starts at start in what
// the scanner reads.
func (r *reader) decoded(p *Plan, text string, start int) (*Decoded, error) {
	if p.SchemaVersion != SchemaVersion {
		return nil, &SchemaError{Version: int64(p.SchemaVersion)}
	}
	d := &Decoded{Plan: p, UnknownMembers: r.unknown, NonCanonical: r.nonCanonical}
	idStart, idEnd := max(r.idStart-start, 0), max(r.idEnd-start, 0)
	id, err := verifiedID(p, text, idStart, idEnd, len(r.unknown) > 0)
	if err != nil {
		return nil, err
	}
	d.ComputedID = id
	return d, nil
}

// schemaFirst answers an error with the plan's schema version where that is not
// ours: the form of a plan of another version is not ours to judge.
func schemaFirst(text string, err error) error {
	s := NewScanner(text)
	version := int64(SchemaVersion)
	s.Record("", planMembers, func(i int) {
		if planMembers[i] == "schemaVersion" {
			version = s.Int()
			return
		}
		s.Skip()
	})
	if s.Err() == nil && version != SchemaVersion {
		return &SchemaError{Version: version}
	}
	return err
}

// verifiedID computes what the ID must be. The writer hashed its own members in
// its own order with an empty ID, so the text as stored comes first, the ID's
// value cut out at its exact place; then the text without white space; then the
// way HAPTIC verifies, which forgets members it does not know. Any of them that
// gives the stored ID proves it.
func verifiedID(p *Plan, text string, idStart, idEnd int, unknown bool) (string, error) {
	stored := digestWithoutID(text[:idStart], text[idEnd:])
	if stored == p.ID {
		return stored, nil
	}
	if compacted, ok := compactWithoutID(text, idStart, idEnd); ok && compacted == p.ID {
		return compacted, nil
	}
	typed, err := p.ComputeID()
	if err != nil {
		return "", err
	}
	if typed == p.ID || !unknown {
		return typed, nil
	}
	return stored, nil
}

func digestWithoutID(before, after string) string {
	d := xxhash.New()
	// A hash in memory never fails to take bytes.
	_, _ = d.WriteString(before)
	_, _ = d.WriteString(`""`)
	_, _ = d.WriteString(after)
	return formatDigest(d.Sum64())
}

func compactWithoutID(text string, idStart, idEnd int) (string, bool) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text[:idStart]+`""`+text[idEnd:])); err != nil {
		// The scanner has accepted the text, so that there was no ID to cut out.
		return "", false
	}
	return Digest(b.Bytes()), true
}
