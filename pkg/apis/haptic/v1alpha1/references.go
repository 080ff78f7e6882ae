package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	kjson "sigs.k8s.io/json"
)

const (
	// maxUnsupportedLists bounds how many unknown lists are remembered; one is
	// enough for a reader to know that it cannot judge the whole.
	maxUnsupportedLists = 16
	// maxListName bounds the remembered start of an unknown list's name.
	maxListName = 64
)

// UnmarshalJSON reads the lists and notes non-empty lists of a later release. A
// decoder would drop those, and the files they name would look lost rather than
// unsupported. A member that occurs twice is refused, since nothing outside can
// look for it any more.
func (r *AuxiliaryFileReferences) UnmarshalJSON(raw []byte) error {
	// The plain type has the same members and no method, which ends the recursion.
	type plain AuxiliaryFileReferences
	var read plain
	repeated, err := kjson.UnmarshalStrict(raw, &read, kjson.DisallowDuplicateFields)
	if err != nil {
		return err
	}
	if len(repeated) > 0 {
		return fmt.Errorf("reading file references: %w", errors.Join(repeated...))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for _, known := range []string{"setID", "mapFiles", "sslCertificates", "sslCaFiles", "generalFiles", "crtListFiles"} {
		delete(members, known)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if len(read.Unsupported) < maxUnsupportedLists && isFilledList(members[name]) {
			read.Unsupported = append(read.Unsupported, name[:min(len(name), maxListName)])
		}
	}
	*r = AuxiliaryFileReferences(read)
	return nil
}

// isFilledList tells lists with an item from members that are no reference
// lists, which a reader may ignore.
func isFilledList(member json.RawMessage) bool {
	inside, isList := bytes.CutPrefix(member, []byte("["))
	return isList && !bytes.HasPrefix(bytes.TrimLeft(inside, " \t\r\n"), []byte("]"))
}
