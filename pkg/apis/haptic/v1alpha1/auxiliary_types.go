package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EmptyFileChecksum is the file checksum of zero bytes. A file that is marked
// empty must carry it.
const EmptyFileChecksum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// HAProxyMapFile is one stored map.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hpmap,scope=Namespaced
// +kubebuilder:printcolumn:name="Map",type=string,JSONPath=`.spec.mapName`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.path`
// +kubebuilder:printcolumn:name="Checksum",type=string,JSONPath=`.spec.checksum`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyMapFile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the map as it belongs on disk.
	Spec HAProxyMapFileSpec `json:"spec"`
	// status has one entry per pod that holds the file.
	// +optional
	Status AuxiliaryFileStatus `json:"status,omitempty"`
}

// HAProxyMapFileSpec is the content of a map.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="(has(self.entries) && size(self.entries) > 0) != (has(self.empty) && self.empty)",message="set either entries or empty: true"
// +kubebuilder:validation:XValidation:rule="!(has(self.empty) && self.empty) || (!(has(self.compressed) && self.compressed) && self.checksum == 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')",message="an empty file is uncompressed and has the checksum of zero bytes"
type HAProxyMapFileSpec struct {
	// mapName is the base name of the path.
	// +kubebuilder:validation:MinLength=1
	MapName string `json:"mapName"`
	// path is the full path as rendered.
	// +kubebuilder:validation:MinLength=1
	Path string `json:"path"`
	// entries is the file content, or its zstd and base64 form if compressed is true.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Entries string `json:"entries,omitempty"`
	// empty marks a file of zero bytes.
	// +optional
	Empty bool `json:"empty,omitempty"`
	// checksum is the file checksum of the original bytes: sha256: and 64 hex digits.
	// +kubebuilder:validation:MinLength=1
	Checksum string `json:"checksum"`
	// compressed says that entries is zstd and base64.
	// +optional
	Compressed bool `json:"compressed,omitempty"`
}

// HAProxyMapFileList is a list of maps.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type HAProxyMapFileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HAProxyMapFile `json:"items"`
}

// HAProxyGeneralFile is one stored file of any other kind, such as an error page.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hpgf,scope=Namespaced
// +kubebuilder:printcolumn:name="File",type=string,JSONPath=`.spec.fileName`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.path`
// +kubebuilder:printcolumn:name="Checksum",type=string,JSONPath=`.spec.checksum`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyGeneralFile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the file as it belongs on disk.
	Spec HAProxyGeneralFileSpec `json:"spec"`
	// status has one entry per pod that holds the file.
	// +optional
	Status AuxiliaryFileStatus `json:"status,omitempty"`
}

// HAProxyGeneralFileSpec is the content of a general file.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="(has(self.content) && size(self.content) > 0) != (has(self.empty) && self.empty)",message="set either content or empty: true"
// +kubebuilder:validation:XValidation:rule="!(has(self.empty) && self.empty) || (!(has(self.compressed) && self.compressed) && self.checksum == 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')",message="an empty file is uncompressed and has the checksum of zero bytes"
type HAProxyGeneralFileSpec struct {
	// fileName is the logical name, the file's identity in the content checksum.
	// +kubebuilder:validation:MinLength=1
	FileName string `json:"fileName"`
	// path is the full path, the file's identity in its object's name.
	// +kubebuilder:validation:MinLength=1
	Path string `json:"path"`
	// content is the file content, or its zstd and base64 form if compressed is true.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Content string `json:"content,omitempty"`
	// empty marks a file of zero bytes.
	// +optional
	Empty bool `json:"empty,omitempty"`
	// checksum is the file checksum of the original bytes: sha256: and 64 hex digits.
	// +kubebuilder:validation:MinLength=1
	Checksum string `json:"checksum"`
	// compressed says that content is zstd and base64.
	// +optional
	Compressed bool `json:"compressed,omitempty"`
	// caFile marks a CA bundle kept as a general file.
	// +optional
	CAFile bool `json:"caFile,omitempty"`
}

// HAProxyGeneralFileList is a list of general files.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type HAProxyGeneralFileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HAProxyGeneralFile `json:"items"`
}

// HAProxyCRTListFile is one stored crt-list.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hpcl,scope=Namespaced
// +kubebuilder:printcolumn:name="List",type=string,JSONPath=`.spec.listName`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.path`
// +kubebuilder:printcolumn:name="Checksum",type=string,JSONPath=`.spec.checksum`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyCRTListFile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the crt-list as it belongs on disk.
	Spec HAProxyCRTListFileSpec `json:"spec"`
	// status has one entry per pod that holds the file.
	// +optional
	Status AuxiliaryFileStatus `json:"status,omitempty"`
}

// HAProxyCRTListFileSpec is the content of a crt-list.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="(has(self.entries) && size(self.entries) > 0) != (has(self.empty) && self.empty)",message="set either entries or empty: true"
// +kubebuilder:validation:XValidation:rule="!(has(self.empty) && self.empty) || (!(has(self.compressed) && self.compressed) && self.checksum == 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')",message="an empty file is uncompressed and has the checksum of zero bytes"
type HAProxyCRTListFileSpec struct {
	// listName is the base name of the path.
	// +kubebuilder:validation:MinLength=1
	ListName string `json:"listName"`
	// path is the full path as rendered.
	// +kubebuilder:validation:MinLength=1
	Path string `json:"path"`
	// entries is the file content, or its zstd and base64 form if compressed is true.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Entries string `json:"entries,omitempty"`
	// empty marks a file of zero bytes.
	// +optional
	Empty bool `json:"empty,omitempty"`
	// checksum is the file checksum of the original bytes: sha256: and 64 hex digits.
	// +kubebuilder:validation:MinLength=1
	Checksum string `json:"checksum"`
	// compressed says that entries is zstd and base64.
	// +optional
	Compressed bool `json:"compressed,omitempty"`
}

// HAProxyCRTListFileList is a list of crt-lists.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type HAProxyCRTListFileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HAProxyCRTListFile `json:"items"`
}

// AuxiliaryFileStatus is what is known of a stored file.
//
// +kubebuilder:pruning:PreserveUnknownFields
type AuxiliaryFileStatus struct {
	// deployedToPods has one entry per pod that holds the file.
	// +optional
	// +listType=map
	// +listMapKey=podName
	DeployedToPods []PodDeploymentStatus `json:"deployedToPods,omitempty"`
	// observedGeneration is the generation last processed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are standard conditions.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
