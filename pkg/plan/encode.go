package plan

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Digest is the plan digest of b: xxHash64 with seed 0 as 16 lower-case hex
// digits, most significant first.
func Digest(b []byte) string {
	return formatDigest(xxhash.Sum64(b))
}

// DigestString is Digest of a string without a copy.
func DigestString(s string) string {
	return formatDigest(xxhash.Sum64String(s))
}

// LinesDigest is the digest that a backend's bodyDigest and commentsDigest
// hold: of the lines joined by newlines, without one at the end, so that no
// line at all has the digest of the empty string.
func LinesDigest(lines []string) string {
	d := xxhash.New()
	for i, line := range lines {
		if i > 0 {
			// A hash in memory never fails to take bytes.
			_, _ = d.Write(newline)
		}
		_, _ = d.WriteString(line)
	}
	return formatDigest(d.Sum64())
}

var newline = []byte{'\n'}

func formatDigest(sum uint64) string {
	const digits = "0123456789abcdef"
	var text [16]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = digits[sum&0xf]
		sum >>= 4
	}
	return string(text[:])
}

// Marshal is the canonical encoding of the plan with its ID in place: members
// in declared order, map keys sorted, no white space, encoding/json escaping.
func (p *Plan) Marshal() ([]byte, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a plan: %w", err)
	}
	return raw, nil
}

// ComputeID is the digest of the canonical encoding with an empty ID. It does
// not change the plan.
func (p *Plan) ComputeID() (string, error) {
	unnamed := *p
	unnamed.ID = ""
	raw, err := unnamed.Marshal()
	if err != nil {
		return "", err
	}
	return Digest(raw), nil
}

// MapEntries derives the entries of a map from its file: one per line that is
// neither blank nor a comment, key up to the first space or tab, value the
// trimmed rest. Order and duplicates are kept; without entries the list is nil.
func MapEntries(content []byte) []MapEntry {
	var entries []MapEntry
	for line := range strings.SplitSeq(string(content), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value := line, ""
		if cut := strings.IndexAny(line, " \t"); cut >= 0 {
			key, value = line[:cut], strings.TrimSpace(line[cut:])
		}
		entries = append(entries, MapEntry{Key: key, Value: value})
	}
	return entries
}
