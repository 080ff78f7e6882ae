package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetainedCheckpointConfigOptions are the query parameters of the subresource config.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RetainedCheckpointConfigOptions struct {
	metav1.TypeMeta `json:",inline"`

	// path of the auxiliary file to return instead of the configuration. Certificates and CA
	// bundles are never returned.
	// +optional
	Path string `json:"path,omitempty"`
}

// SwaggerDoc describes the query parameters, which the API server takes from here.
func (RetainedCheckpointConfigOptions) SwaggerDoc() map[string]string {
	return map[string]string{
		"path": "path of the auxiliary file to return instead of the configuration. Certificates and CA bundles are never returned.",
	}
}
