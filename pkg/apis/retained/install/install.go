// Package install registers every version of the view group with a scheme.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// Install registers the view group with scheme. It panics if the kinds clash
// with kinds that are registered already.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
