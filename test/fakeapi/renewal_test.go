package fakeapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tracked is a Lease with managedFields, stored by holder "one" and changed
// by the others in turn.
func tracked(t *testing.T, k *kind, changes map[string]func(*coordinationv1.Lease)) *coordinationv1.Lease {
	t.Helper()
	stored := lease("l")
	stored.SetGroupVersionKind(k.gvk)
	k.managers[""].UpdateNoErrors(k.empty(), stored, "one")
	for manager, change := range changes {
		next := stored.DeepCopy()
		change(next)
		k.managers[""].UpdateNoErrors(stored, next, manager)
		stored = next
	}
	return stored
}

func TestARenewalIsTrackedAsTheFieldManagerDoes(t *testing.T) {
	renew := func(l *coordinationv1.Lease) {
		later := metav1.NewMicroTime(l.Spec.RenewTime.Add(time.Second))
		l.Spec.RenewTime = &later
	}
	tests := []struct {
		name    string
		before  map[string]func(*coordinationv1.Lease)
		change  func(*coordinationv1.Lease)
		manager string
		quick   bool
	}{
		{name: "the holder renews", change: renew, manager: "one", quick: true},
		{name: "the holder renews without sending managedFields", change: func(l *coordinationv1.Lease) {
			renew(l)
			l.ManagedFields = nil
		}, manager: "one", quick: true},
		{name: "the holder renews beside an annotator", before: map[string]func(*coordinationv1.Lease){
			"two": func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"epoch": "1"} },
		}, change: renew, manager: "one", quick: true},
		{name: "another renews", change: renew, manager: "two"},
		{name: "the holder renews and annotates", change: func(l *coordinationv1.Lease) {
			renew(l)
			l.Annotations = map[string]string{"a": "b"}
		}, manager: "one"},
		{name: "the holder changes", change: func(l *coordinationv1.Lease) {
			renew(l)
			holder := "other"
			l.Spec.HolderIdentity = &holder
		}, manager: "one"},
		{name: "managedFields are reset", change: func(l *coordinationv1.Lease) {
			renew(l)
			l.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		}, manager: "one"},
		{name: "an annotation has the field's name", before: map[string]func(*coordinationv1.Lease){
			"two": func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"renewTime": "1"} },
		}, change: renew, manager: "one"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			k := loadKinds().find("coordination.k8s.io", "v1", "leases")
			stored := tracked(t, k, tc.before)
			quick, slow := stored.DeepCopy(), stored.DeepCopy()
			tc.change(quick)
			tc.change(slow)
			r := &request{kind: k, userAgent: tc.manager}
			if got := trackRenewal(r, stored, quick); got != tc.quick {
				t.Fatalf("taken as a mere renewal: %t, want %t", got, tc.quick)
			}
			if !tc.quick {
				return
			}
			k.managers[""].UpdateNoErrors(stored, slow, tc.manager)
			if diff := cmp.Diff(slow.ManagedFields, quick.ManagedFields, sameSecond); diff != "" {
				t.Errorf("managedFields (-manager +quick):\n%s", diff)
			}
		})
	}
}

// sameSecond allows for the time between two calls.
var sameSecond = cmp.Comparer(func(a, b *metav1.Time) bool { return a.Sub(b.Time).Abs() < 10*time.Second })
