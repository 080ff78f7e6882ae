package record

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Controller is the controller owner of an object, zero without one.
func Controller(m *metav1.ObjectMeta) checkpoint.Owner {
	ref := metav1.GetControllerOfNoCopy(m)
	if ref == nil {
		return checkpoint.Owner{}
	}
	return checkpoint.Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: string(ref.UID), Controller: true}
}

// ModifiedAt is when an object was last written, as far as it says so itself.
// Status writes count only where status is an input of verdicts: pods report on
// files all the time.
func ModifiedAt(m *metav1.ObjectMeta, withStatus bool) time.Time {
	newest := m.CreationTimestamp.Time
	for i := range m.ManagedFields {
		entry := &m.ManagedFields[i]
		if entry.Time != nil && entry.Time.After(newest) && (withStatus || entry.Subresource == "") {
			newest = entry.Time.Time
		}
	}
	return newest
}
