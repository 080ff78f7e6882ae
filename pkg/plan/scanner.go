package plan

import (
	"fmt"
	"strings"
)

// Scanner reads one JSON text front to back, without building what its caller
// does not ask for. It reads what encoding/json reads, and remembers what a
// stricter reader would not: see Decoded. After the first error every call
// returns a zero value, so that callers check Err once at the end.
//
// Strings without escapes are parts of the text, not copies.
type Scanner struct {
	text  string
	pos   int
	depth int

	err          error
	memory       int64
	unknown      []string
	nonCanonical []string
}

// maxDepth bounds nesting. Plans nest six deep; members of later releases may
// nest deeper.
const maxDepth = 256

// NewScanner reads text.
func NewScanner(text string) *Scanner {
	return &Scanner{text: text}
}

// Err is the first error, or an error if anything but white space is left.
func (s *Scanner) Err() error {
	if s.err == nil && s.peek() != 0 {
		s.fail("unexpected text after the value")
	} else if s.err == nil && s.pos < len(s.text) {
		s.fail("unexpected NUL")
	}
	return s.err
}

// UnknownMembers are the members passed to Unknown, as paths.
func (s *Scanner) UnknownMembers() []string { return s.unknown }

// NonCanonical are the repeated and differently spelled members, as paths.
func (s *Scanner) NonCanonical() []string { return s.nonCanonical }

func (s *Scanner) fail(format string, args ...any) {
	s.Abort(&SyntaxError{Offset: s.pos, Problem: fmt.Sprintf(format, args...)})
}

// Abort ends reading with an error of the caller.
func (s *Scanner) Abort(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Charge books memory that the caller is about to use for a value.
func (s *Scanner) Charge(bytes int64) {
	if s.memory += bytes; s.memory > MaxMemory {
		s.Abort(&BoundError{What: "bytes of decoded values", Limit: MaxMemory})
	}
}

// peek is the next byte that is not white space, or zero at the end or after an error.
func (s *Scanner) peek() byte {
	if s.err != nil {
		return 0
	}
	for ; s.pos < len(s.text); s.pos++ {
		if c := s.text[s.pos]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// take consumes the next byte if it is c.
func (s *Scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// Null consumes a null if one is next.
func (s *Scanner) Null() bool {
	return s.peek() == 'n' && s.literal("null")
}

func (s *Scanner) literal(word string) bool {
	if !strings.HasPrefix(s.text[s.pos:], word) {
		s.fail("expected %s", word)
		return false
	}
	s.pos += len(word)
	return true
}

// Bool reads a boolean; null reads as false.
func (s *Scanner) Bool() bool {
	switch s.peek() {
	case 't':
		return s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.fail("expected a boolean")
	}
	return false
}

func (s *Scanner) enter() bool {
	if s.depth++; s.depth > maxDepth {
		s.Abort(&BoundError{What: "levels of nesting", Limit: maxDepth})
	}
	return s.err == nil
}

// List reads an array and calls element before each of its elements. It tells
// false for null.
func (s *Scanner) List(element func()) bool {
	if s.Null() {
		return false
	}
	if !s.take('[') {
		s.fail("expected a list")
		return false
	}
	if !s.enter() {
		return false
	}
	if s.take(']') {
		s.depth--
		return true
	}
	for s.err == nil {
		element()
		if s.take(']') {
			break
		}
		if !s.take(',') {
			s.fail("expected a comma or the end of a list")
		}
	}
	s.depth--
	return true
}

// Object reads an object and calls member with each name, which must read the
// value. It tells false for null.
func (s *Scanner) Object(member func(name string)) bool {
	return s.object(func() {
		name := s.memberName()
		if s.err == nil {
			member(name)
		}
	})
}

// object calls member before each member of an object, which must read name and
// value. It tells false for null.
func (s *Scanner) object(member func()) bool {
	if s.Null() {
		return false
	}
	if !s.take('{') {
		s.fail("expected an object")
		return false
	}
	if !s.enter() {
		return false
	}
	if s.take('}') {
		s.depth--
		return true
	}
	for s.err == nil {
		member()
		if s.take('}') {
			break
		}
		if !s.take(',') {
			s.fail("expected a comma or the end of an object")
		}
	}
	s.depth--
	return true
}

func (s *Scanner) memberName() string {
	if s.peek() != '"' {
		s.fail("expected a member name")
		return ""
	}
	name := s.String()
	if !s.take(':') {
		s.fail("expected a colon")
	}
	return name
}

// takeName consumes a member's name and colon if they are spelled exactly so, as
// nearly all are.
func (s *Scanner) takeName(name string) bool {
	end := s.pos + len(name) + 3
	if end > len(s.text) || s.text[s.pos] != '"' || s.text[s.pos+1:end-2] != name || s.text[end-2:end] != `":` {
		return false
	}
	s.pos = end
	return true
}

// Raw skips one value and returns its text.
func (s *Scanner) Raw() string {
	s.peek()
	start := s.pos
	s.Skip()
	if s.err != nil {
		return ""
	}
	return s.text[start:s.pos]
}

// Skip reads over one value of any kind.
func (s *Scanner) Skip() {
	switch s.peek() {
	case '{':
		s.Object(func(string) { s.Skip() })
	case '[':
		s.List(s.Skip)
	case '"':
		_ = s.String()
	case 't', 'f', 'n':
		s.Bool()
	default:
		_ = s.number()
	}
}
