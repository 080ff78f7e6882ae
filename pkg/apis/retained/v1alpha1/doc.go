// Package v1alpha1 holds the views RetainedCheckpoint and DeploymentIntent.
// They are computed from stored objects and Leases, never stored, and carry
// neither file contents nor key bytes.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=org.haproxy-haptic.retained.v1alpha1
// +groupName=retained.haproxy-haptic.org
// +groupGoName=Retained
package v1alpha1
