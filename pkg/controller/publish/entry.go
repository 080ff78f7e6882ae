package publish

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const (
	// maxErrorBytes bounds the error in an entry. HAProxy's own messages can be
	// long, and every pod's is stored on one object.
	maxErrorBytes = 256
	// maxReasons and maxReasonBytes bound the reasons; the first is the schema's.
	maxReasons     = 8
	maxReasonBytes = 64
	// managedFieldBytes is what the API server stores for a field manager beyond
	// its name and the names of the pod and its fields, measured and rounded up.
	managedFieldBytes = 260
)

// bounded cuts an entry to what one pod may take of an object.
func bounded(entry v1alpha1.PodDeploymentStatus) v1alpha1.PodDeploymentStatus {
	entry.LastError = cut(entry.LastError, maxErrorBytes)
	var reasons []string
	for _, reason := range entry.Reasons[:min(len(entry.Reasons), maxReasons)] {
		reasons = append(reasons, cut(reason, maxReasonBytes))
	}
	entry.Reasons = reasons
	return entry
}

// cut shortens at a character's border.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// entryBytes is what an entry takes of an object, with the managed fields that
// the API server keeps for it: each field's name once more.
func entryBytes(entry v1alpha1.PodDeploymentStatus) int {
	raw, err := json.Marshal(entry)
	if err != nil {
		return maxErrorBytes * 8 // never so: strings, lists and numbers always encode
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(raw, &fields) // it was just written
	size := len(raw) + managedFieldBytes + len(managerOf(entry.PodName)) + len(entry.PodName)
	for field := range fields {
		size += len(field) + len(`"f:":{},`)
	}
	return size
}
