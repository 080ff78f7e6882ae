package plan

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// String reads a string; null reads as empty. Invalid UTF-8 and lone surrogates
// become the replacement character, as in encoding/json.
func (s *Scanner) String() string {
	if s.Null() {
		return ""
	}
	if !s.take('"') {
		s.fail("expected a string")
		return ""
	}
	start := s.pos
	ascii := true
	for i := start; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.pos = i + 1
			if ascii {
				return s.text[start:i]
			}
			return s.repaired(s.text[start:i])
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			s.pos = i
			s.fail("control character in a string")
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.pos = len(s.text)
	s.fail("string without end")
	return ""
}

// escaped reads the string that began at start and has its first escape at i.
func (s *Scanner) escaped(start, i int) string {
	var b strings.Builder
	b.WriteString(s.text[start:i])
	for i < len(s.text) {
		c := s.text[i]
		switch {
		case c == '"':
			s.pos = i + 1
			s.Charge(int64(b.Len()))
			return s.repaired(b.String())
		case c == '\\':
			s.pos = i
			r, width := s.escape()
			if s.err != nil {
				return ""
			}
			b.WriteRune(r)
			i += width
			continue
		case c < ' ':
			s.pos = i
			s.fail("control character in a string")
			return ""
		}
		b.WriteByte(c)
		i++
	}
	s.pos = len(s.text)
	s.fail("string without end")
	return ""
}

// repaired puts one replacement character in the place of each invalid byte.
func (s *Scanner) repaired(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		b.WriteRune(r)
	}
	s.Charge(int64(b.Len()))
	return b.String()
}

// escape decodes the escape at the scanner's place.
func (s *Scanner) escape() (r rune, width int) {
	if s.pos+1 >= len(s.text) {
		s.fail("string without end")
		return 0, 0
	}
	switch c := s.text[s.pos+1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return s.unicodeEscape()
	default:
		s.fail("unknown escape")
		return 0, 0
	}
}

// unicodeEscape decodes \uXXXX, or two of them that form a surrogate pair.
func (s *Scanner) unicodeEscape() (r rune, width int) {
	const single = len(`\u0000`)
	high, ok := s.hex4(s.pos)
	if !ok {
		s.fail("incomplete escape")
		return 0, 0
	}
	if !utf16.IsSurrogate(high) {
		return high, single
	}
	if low, ok := s.hex4(s.pos + single); ok {
		if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
			return pair, 2 * single
		}
	}
	return utf8.RuneError, single
}

// hex4 is the number in the \uXXXX at i, if there is one.
func (s *Scanner) hex4(i int) (rune, bool) {
	if i+6 > len(s.text) || s.text[i] != '\\' || s.text[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s.text[i+2:i+6], 16, 32)
	return rune(n), err == nil
}
