package record

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/fencing"
)

func ptr[T any](v T) *T { return &v }

func TestElectionLease(t *testing.T) {
	const intent = `{"uid":"u","epoch":3,"claim":"c"}`
	tests := []struct {
		name  string
		lease *coordinationv1.Lease
		want  fencing.ElectionLease
	}{
		{name: "a lease that does not exist"},
		{
			name:  "a lease that nobody held yet",
			lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "l", ResourceVersion: "5"}},
			want:  fencing.ElectionLease{Exists: true, UID: "l", ResourceVersion: "5"},
		},
		{
			name: "a lease with everything",
			lease: &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{UID: "l", ResourceVersion: "5", Annotations: map[string]string{
					"haptic.io/leader-epoch":               "18446744073709551615",
					"haproxy-haptic.org/leader-template":   "t-uid/web",
					"haproxy-haptic.org/deployment-intent": intent,
				}},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("pod-1"), LeaseTransitions: ptr(int32(4))},
			},
			want: fencing.ElectionLease{
				Exists: true, UID: "l", ResourceVersion: "5", Holder: "pod-1", Transitions: 4,
				Epoch: 1<<64 - 1, EpochPresent: true,
				Template: fencing.TemplateRef{Name: "web", UID: "t-uid"}, Copy: fencing.ReadIntent(intent),
			},
		},
		{
			name: "an epoch that is out of range is not read as the largest",
			lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{"haptic.io/leader-epoch": "18446744073709551616"},
			}},
			want: fencing.ElectionLease{Exists: true, EpochPresent: true, EpochErr: fencing.ErrUnreadable},
		},
		{
			name: "an empty epoch is unreadable, not absent",
			lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{"haptic.io/leader-epoch": ""},
			}},
			want: fencing.ElectionLease{Exists: true, EpochPresent: true, EpochErr: fencing.ErrUnreadable},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ElectionLease(tc.lease), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("ElectionLease() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetainedLeaseCountsOnlyATemplateAsItsOwner(t *testing.T) {
	owner := metav1.OwnerReference{
		APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyTemplateConfig", Name: "web", UID: "u", Controller: ptr(true),
	}
	tests := []struct {
		name string
		edit func(*metav1.OwnerReference)
		want fencing.TemplateRef
	}{
		{name: "the template", edit: func(*metav1.OwnerReference) {}, want: fencing.TemplateRef{Name: "web", UID: "u"}},
		{name: "another kind", edit: func(o *metav1.OwnerReference) { o.Kind = "HAProxyCfg" }},
		{name: "another group", edit: func(o *metav1.OwnerReference) { o.APIVersion = "example.org/v1alpha1" }},
		{name: "an owner that is not the controller", edit: func(o *metav1.OwnerReference) { o.Controller = nil }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			changed := owner
			tc.edit(&changed)
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{changed}}}
			if diff := cmp.Diff(tc.want, RetainedLease(lease).Owner); diff != "" {
				t.Errorf("RetainedLease() owner (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsWrittenToALeaseIsReadBack(t *testing.T) {
	template := fencing.TemplateRef{Name: "web", UID: "u"}
	intent := fencing.Intent{UID: "u", Epoch: 3, Claim: "c", PlanID: "p", Checksum: "s", Holder: "h"}

	r := RetainedLease(NewRetainedLease("ns", "web-retained-state", template, intent))
	if diff := cmp.Diff(template, r.Owner); diff != "" {
		t.Errorf("owner of a new retained-state lease (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(intent, r.Intent.Intent); diff != "" {
		t.Errorf("intent of a new retained-state lease (-want +got):\n%s", diff)
	}

	stored := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("h"), LeaseTransitions: ptr(int32(2))}}
	l := ElectionLease(WithEpoch(WithIntent(stored, intent), 9, template))
	if l.Epoch != 9 || l.Template != template || !l.Copy.Present {
		t.Errorf("ElectionLease() = %+v, want epoch 9, the template and a copy", l)
	}
	if l := ElectionLease(WithoutIntent(WithIntent(stored, intent))); l.Copy.Present {
		t.Errorf("a removed intent is still there: %+v", l.Copy)
	}
	released := ElectionLease(WithoutHolder(WithEpoch(stored, 9, template)))
	if released.Holder != "" || released.Transitions != 2 || released.Epoch != 9 {
		t.Errorf("WithoutHolder() = %+v, want no holder and both counters", released)
	}
	if stored.Annotations != nil || *stored.Spec.HolderIdentity != "h" {
		t.Errorf("the stored lease was changed: %+v", stored)
	}
}

func TestErrorsOfAnEpochCanBeBranchedOn(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{"haptic.io/leader-epoch": "-1"},
	}}
	if err := ElectionLease(lease).EpochErr; !errors.Is(err, fencing.ErrUnreadable) {
		t.Errorf("EpochErr = %v, want ErrUnreadable", err)
	}
}
