package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-project/holdfast/pkg/apis/retained"
)

// GroupName is the API group of the views.
const GroupName = retained.GroupName

// SchemeGroupVersion is the version of this package's kinds.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects the kinds of this version.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, addConversions)
	// AddToScheme registers the kinds of this version.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource qualifies a resource name with the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&RetainedCheckpoint{}, &RetainedCheckpointList{},
		&DeploymentIntent{}, &DeploymentIntentList{},
		&RetainedCheckpointConfigOptions{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
