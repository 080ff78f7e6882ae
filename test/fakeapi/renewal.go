package fakeapi

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// trackRenewal does the field manager's work for the commonest write by far:
// the holder of a Lease, who owns the time of renewal alone, renews it. Then
// only its entry's time changes. It reports whether that was the case.
func trackRenewal(r *request, live, next runtime.Object) bool {
	old, isLease := live.(*coordinationv1.Lease)
	renewed, _ := next.(*coordinationv1.Lease)
	if !isLease || r.Subresource != "" || !renewsOnly(old, renewed) {
		return false
	}
	if sent := renewed.ManagedFields; sent != nil && !sameEntries(sent, old.ManagedFields) {
		return false
	}
	manager, owner := managerOf(r), -1
	for i, entry := range old.ManagedFields {
		if entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:renewTime":{}`) {
			continue
		}
		mine := entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
		if owner >= 0 || !mine {
			return false
		}
		owner = i
	}
	if owner < 0 {
		return false
	}
	entries := slices.Clone(old.ManagedFields)
	now := metav1.Now()
	entries[owner].Time = &now
	slices.SortStableFunc(entries, compareEntries)
	renewed.ManagedFields = entries
	return true
}

// renewsOnly tells whether nothing that is tracked differs but the time of
// renewal. An annotation of that name would be mistaken for the field.
func renewsOnly(old, next *coordinationv1.Lease) bool {
	if old.Spec.RenewTime == nil || next.Spec.RenewTime == nil {
		return false
	}
	_, taken := next.Annotations["renewTime"]
	if _, label := next.Labels["renewTime"]; taken || label {
		return false
	}
	was, is := old.Spec, next.Spec
	was.RenewTime, is.RenewTime = nil, nil
	return maps.Equal(old.Labels, next.Labels) && maps.Equal(old.Annotations, next.Annotations) &&
		slices.Equal(old.Finalizers, next.Finalizers) && old.GenerateName == next.GenerateName &&
		equality.Semantic.DeepEqual(old.OwnerReferences, next.OwnerReferences) &&
		equality.Semantic.DeepEqual(was, is)
}

func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(p, q metav1.ManagedFieldsEntry) bool {
		return compareEntries(p, q) == 0 && p.FieldsV1 != nil && q.FieldsV1 != nil &&
			p.FieldsV1.GetRawString() == q.FieldsV1.GetRawString()
	})
}

// compareEntries is the order of entries on a real server.
func compareEntries(p, q metav1.ManagedFieldsEntry) int {
	seconds := func(t *metav1.Time) int64 {
		if t == nil {
			return 0
		}
		return t.Unix()
	}
	return cmp.Or(
		cmp.Compare(p.Operation, q.Operation),
		cmp.Compare(seconds(p.Time), seconds(q.Time)),
		cmp.Compare(p.Manager, q.Manager),
		cmp.Compare(p.APIVersion, q.APIVersion),
		cmp.Compare(p.Subresource, q.Subresource),
	)
}
