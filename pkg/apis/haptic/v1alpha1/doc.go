// Package v1alpha1 holds the stored kinds of group haproxy-haptic.org: the
// template, the outputs published from it, and their auxiliary files.
//
// The JSON shape is shared with HAPTIC 0.5 to 0.7, so a member is renamed or
// retyped only if their objects stay readable. Unknown members are kept by the
// custom resource definitions and ignored here.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=org.haproxy-haptic.v1alpha1
// +groupName=haproxy-haptic.org
// +groupGoName=Haptic
package v1alpha1
