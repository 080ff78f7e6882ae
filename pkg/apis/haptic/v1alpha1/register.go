package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of everything that is stored.
const GroupName = "haproxy-haptic.org"

// SchemeGroupVersion is the one version the stored kinds have.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects the kinds of this group.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the kinds of this group.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource qualifies a resource name with the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&HAProxyTemplateConfig{}, &HAProxyTemplateConfigList{},
		&HAProxyCfg{}, &HAProxyCfgList{},
		&HAProxyMapFile{}, &HAProxyMapFileList{},
		&HAProxyGeneralFile{}, &HAProxyGeneralFileList{},
		&HAProxyCRTListFile{}, &HAProxyCRTListFileList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
