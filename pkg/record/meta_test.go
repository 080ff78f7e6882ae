package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

func at(second int64) *metav1.Time { return ptr(metav1.Unix(second, 0)) }

func TestModifiedAtCountsStatusWritesOnlyWhereAsked(t *testing.T) {
	m := &metav1.ObjectMeta{CreationTimestamp: *at(100), ManagedFields: []metav1.ManagedFieldsEntry{
		{Time: at(300)}, {}, {Time: at(50)}, {Time: at(500), Subresource: "status"},
	}}
	for withStatus, want := range map[bool]int64{true: 500, false: 300} {
		if got := ModifiedAt(m, withStatus).Unix(); got != want {
			t.Errorf("ModifiedAt with status %t: %d, want %d", withStatus, got, want)
		}
	}
	if got := ModifiedAt(&metav1.ObjectMeta{CreationTimestamp: *at(100)}, true).Unix(); got != 100 {
		t.Errorf("ModifiedAt without managed fields: %d, want the creation at 100", got)
	}
}

func TestTemplateOf(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyTemplateConfig", Name: "web", UID: "t", Controller: ptr(true)}
	labels := map[string]string{"haproxy-haptic.org/template-config": "labelled", "haproxy-haptic.org/retained-for": "l"}
	tests := []struct {
		name   string
		change func(o *metav1.OwnerReference)
		want   []string
	}{
		{name: "the owner counts before the labels", change: func(*metav1.OwnerReference) {}, want: []string{"web", "t"}},
		{name: "another version of the group is the same owner", change: func(o *metav1.OwnerReference) { o.APIVersion = "haproxy-haptic.org/v2" }, want: []string{"web", "t"}},
		{name: "an owner of another kind does not count", change: func(o *metav1.OwnerReference) { o.Kind = "HAProxyCfg" }, want: []string{"labelled", "l"}},
		{name: "an owner of another group does not count", change: func(o *metav1.OwnerReference) { o.APIVersion = "example.org/v1alpha1" }, want: []string{"labelled", "l"}},
		{name: "an owner that is no controller does not count", change: func(o *metav1.OwnerReference) { o.Controller = nil }, want: []string{"labelled", "l"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			changed := owner
			tc.change(&changed)
			cfg := &v1alpha1.HAProxyCfg{ObjectMeta: metav1.ObjectMeta{Labels: labels, OwnerReferences: []metav1.OwnerReference{changed}}}
			name, uid := TemplateOf(cfg)
			if diff := cmp.Diff(tc.want, []string{name, uid}); diff != "" {
				t.Errorf("TemplateOf (-want +got):\n%s", diff)
			}
		})
	}
	if got := TemplateIn("web-haproxycfg-retained-0"); got != "web" {
		t.Errorf("TemplateIn: %q, want web", got)
	}
}

func TestController(t *testing.T) {
	m := objectMeta()
	want := checkpoint.Owner{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyTemplateConfig", Name: "web", UID: "t", Controller: true}
	if diff := cmp.Diff(want, Controller(&m)); diff != "" {
		t.Errorf("Controller (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(checkpoint.Owner{}, Controller(&metav1.ObjectMeta{})); diff != "" {
		t.Errorf("Controller of nothing (-want +got):\n%s", diff)
	}
}

func TestLeaseTimes(t *testing.T) {
	elected := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{AcquireTime: ptr(metav1.NewMicroTime(time.Unix(200, 0)))}}
	elected.ManagedFields = []metav1.ManagedFieldsEntry{{Time: at(900)}}
	acquired, recorded := LeaseTimes(elected)
	if acquired.Unix() != 200 || !recorded.IsZero() {
		t.Errorf("leader-election Lease: acquired %s, recorded %s", acquired, recorded)
	}
	retained := &coordinationv1.Lease{ObjectMeta: objectMeta()}
	retained.ManagedFields = []metav1.ManagedFieldsEntry{{Time: at(900)}}
	acquired, recorded = LeaseTimes(retained)
	if !acquired.IsZero() || recorded.Unix() != 900 {
		t.Errorf("retained-state Lease: acquired %s, recorded %s", acquired, recorded)
	}
}
