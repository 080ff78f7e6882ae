package viewfeed

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// Ownership is group, kind, name and UID of the controller reference: an object
// that agrees in some of them only holds no pointers of the template.
func TestPointersOfAnOutputThatTheTemplateDoesNotOwnDoNotCount(t *testing.T) {
	tests := []struct {
		name   string
		change func(o *metav1.OwnerReference)
	}{
		{name: "another UID", change: func(o *metav1.OwnerReference) { o.UID = "other" }},
		{name: "another kind", change: func(o *metav1.OwnerReference) { o.Kind = "ConfigMap" }},
		{name: "another group", change: func(o *metav1.OwnerReference) { o.APIVersion = "example.org/v1alpha1" }},
		{name: "another name", change: func(o *metav1.OwnerReference) { o.Name = "other" }},
		{name: "no controller", change: func(o *metav1.OwnerReference) { o.Controller = nil }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			running(t, nil, func(p *pipeline) {
				p.expect(sound)
				changed := p.fixture.ordinary.DeepCopy()
				tc.change(&changed.OwnerReferences[0])
				p.put(changed)
				if position := p.checkpoint().Status.Position; position != views.PositionUnpromoted {
					t.Errorf("position %s, want %s", position, views.PositionUnpromoted)
				}
				p.put(p.fixture.ordinary)
				p.expect(sound)
			})
		})
	}
}
