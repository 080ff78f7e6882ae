package plan

import "strconv"

// Int reads a whole number; null reads as 0.
func (s *Scanner) Int() int64 {
	if s.Null() {
		return 0
	}
	if s.err != nil {
		return 0
	}
	start := s.pos
	token := s.number()
	if s.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		s.pos = start
		s.fail("expected a whole number of 64 bits")
	}
	return n
}

// number consumes a number as JSON spells it.
func (s *Scanner) number() string {
	if s.peek() == 0 {
		s.fail("unexpected end")
		return ""
	}
	start := s.pos
	if s.pos < len(s.text) && s.text[s.pos] == '-' {
		s.pos++
	}
	whole := s.digits()
	leadingZero := whole > 1 && s.text[s.pos-whole] == '0'
	fraction, exponent := 1, 1
	if s.pos < len(s.text) && s.text[s.pos] == '.' {
		s.pos++
		fraction = s.digits()
	}
	if s.pos < len(s.text) && (s.text[s.pos] == 'e' || s.text[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.text) && (s.text[s.pos] == '+' || s.text[s.pos] == '-') {
			s.pos++
		}
		exponent = s.digits()
	}
	if whole == 0 || leadingZero || fraction == 0 || exponent == 0 {
		s.pos = start
		s.fail("expected a value")
		return ""
	}
	return s.text[start:s.pos]
}

func (s *Scanner) digits() int {
	start := s.pos
	for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}
