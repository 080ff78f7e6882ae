package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Limits of names in Kubernetes.
const (
	maxNameLength  = 253
	maxLabelLength = 63
)

const retainedInfix = "-retained-"

// OrdinaryName is the name of a template's ordinary output.
func OrdinaryName(template string) string {
	return stableName(template, "-haproxycfg", template)
}

// CheckpointName is the name of the checkpoint with this content checksum and
// this spec.retainedPlan exactly as stored. Payloads that differ only in their
// compression have different names.
func CheckpointName(template, checksum, retainedPlan string) string {
	return checkpointNameFor(template, payloadBinding(checksum, retainedPlan))
}

func checkpointNameFor(template, binding string) string {
	return stableName(template, "-haproxycfg"+retainedInfix+binding, template)
}

// payloadBinding is the hex digest that ends a checkpoint's name.
func payloadBinding(checksum, retainedPlan string) string {
	h := sha256.New()
	// A hash in memory never fails to take bytes.
	_, _ = h.Write([]byte(checksum))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(retainedPlan))
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0]))
}

// RetainedStateLeaseName is the name of the Lease that holds a template's intent.
func RetainedStateLeaseName(template string) string {
	return stableName(template, "-retained-state", template)
}

// LabelValue is a name as a label value: itself if that is legal, else a hash.
func LabelValue(name string) string {
	if isLabelValue(name) {
		return name
	}
	return "haptic-" + hashPrefix(name, 8)
}

// stableName is base followed by suffix where that is a legal name, else a
// disambiguated one.
func stableName(base, suffix, id string) string {
	if name := base + suffix; isDNS1123Subdomain(name) {
		return name
	}
	return disambiguatedName(base, suffix, id)
}

// disambiguatedName is a legal name for any base: a cleaned, shortened stem, 48
// bits of the hash of id, and suffix. The suffix must itself be legal.
func disambiguatedName(base, suffix, id string) string {
	tail := "-" + hashPrefix(id, 6) + suffix
	room := maxNameLength - len(tail)
	if room < 1 {
		sum := sha256.Sum256([]byte(id))
		return "haptic-" + hex.EncodeToString(sum[:])
	}
	stem := cleanStem(base, room)
	if stem == "" {
		stem = "haptic"[:min(room, len("haptic"))]
	}
	return stem + tail
}

// cleanStem keeps the letters and digits of base in lower case and makes one
// hyphen of every run of anything else, within room characters.
func cleanStem(base string, room int) string {
	stem := make([]byte, 0, min(room, len(base)))
	gap := false
	for _, r := range strings.ToLower(base) {
		if !isLowerAlnum(r) {
			gap = len(stem) > 0
			continue
		}
		if gap && len(stem) < room {
			stem = append(stem, '-')
		}
		gap = false
		if len(stem) >= room {
			break
		}
		stem = append(stem, byte(r))
	}
	return strings.TrimRight(string(stem), "-")
}

func hashPrefix(s string, bytes int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:bytes])
}

func isLowerAlnum(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
}

// isDNS1123Subdomain is the API server's rule for the names of objects.
func isDNS1123Subdomain(name string) bool {
	if name == "" || len(name) > maxNameLength {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := rune(label[i]); !isLowerAlnum(c) && c != '-' {
				return false
			}
		}
	}
	return true
}

// isLabelValue is the API server's rule for label values, the empty one included.
func isLabelValue(value string) bool {
	if len(value) > maxLabelLength {
		return false
	}
	for i := range len(value) {
		c := rune(value[i])
		alnum := isLowerAlnum(c) || 'A' <= c && c <= 'Z'
		edge := i == 0 || i == len(value)-1
		if !alnum && (edge || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}
