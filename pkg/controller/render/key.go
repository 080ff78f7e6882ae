package render

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// textKey tells one snippet with one value from every other.
type textKey [sha256.Size]byte

// maxKeyDepth ends values that hold themselves.
const maxKeyDepth = 64

// keyOf is false for a value of types that templates hardly make.
func keyOf(name string, value any) (textKey, bool) {
	raw := binary.AppendUvarint(make([]byte, 0, 256), uint64(len(name)))
	raw, ok := appendValue(append(raw, name...), value, maxKeyDepth)
	return sha256.Sum256(raw), ok
}

// appendValue writes a value so that no two read the same: a type, and a length
// where that is not part of the type.
func appendValue(to []byte, value any, depth int) ([]byte, bool) {
	if depth == 0 {
		return to, false
	}
	text := func(kind byte, s string) {
		to = binary.AppendUvarint(append(to, kind), uint64(len(s)))
		to = append(to, s...)
	}
	ok := true
	switch v := value.(type) {
	case nil:
		to = append(to, 0)
	case bool:
		kind := byte(1)
		if v {
			kind = 2
		}
		to = append(to, kind)
	case int:
		to = binary.AppendVarint(append(to, 3), int64(v))
	case int64:
		to = binary.AppendVarint(append(to, 4), v)
	case float64:
		to = binary.BigEndian.AppendUint64(append(to, 5), math.Float64bits(v))
	case string:
		text(6, v)
	case []any:
		to = binary.AppendUvarint(append(to, 7), uint64(len(v)))
		for i := 0; ok && i < len(v); i++ {
			to, ok = appendValue(to, v[i], depth-1)
		}
	case map[string]any:
		to = binary.AppendUvarint(append(to, 8), uint64(len(v)))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text(6, key)
			if to, ok = appendValue(to, v[key], depth-1); !ok {
				break
			}
		}
	case []string:
		to = binary.AppendUvarint(append(to, 9), uint64(len(v)))
		for _, s := range v {
			text(6, s)
		}
	default:
		ok = false
	}
	return to, ok
}
