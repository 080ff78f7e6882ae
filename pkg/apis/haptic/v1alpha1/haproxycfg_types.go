package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HAProxyCfg is one output: the ordinary one of a template, a refused render,
// or a checkpoint (told apart by spec.retainedPlan and a label).
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hpcfg,scope=Namespaced
// +kubebuilder:printcolumn:name="Checksum",type=string,JSONPath=`.spec.checksum`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyCfg struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the output as it belongs on disk.
	Spec HAProxyCfgSpec `json:"spec"`
	// status holds the references to its files, the pods that run it and, on the
	// ordinary output, the checkpoint pointers.
	// +optional
	Status HAProxyCfgStatus `json:"status,omitempty"`
}

// HAProxyCfgSpec is one rendered configuration.
//
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyCfgSpec struct {
	// path is where the configuration belongs on disk.
	// +kubebuilder:validation:MinLength=1
	Path string `json:"path"`
	// content is the configuration text, or its zstd and base64 form if compressed is true.
	// +kubebuilder:validation:MinLength=1
	Content string `json:"content"`
	// checksum is the content checksum over configuration and files: 16 lower-case hex digits.
	// +kubebuilder:validation:MinLength=1
	Checksum string `json:"checksum"`
	// compressed says that content is zstd and base64.
	// +optional
	Compressed bool `json:"compressed,omitempty"`
	// retainedPlan is present on checkpoints only: the encoded plan and artifact descriptors.
	// +optional
	RetainedPlan string `json:"retainedPlan,omitempty"`
}

// HAProxyCfgStatus is what is known of an output.
//
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyCfgStatus struct {
	// retainedConfigs are the committed checkpoint pointers, newest first. Only
	// meaningful on the ordinary output.
	// +optional
	// +listType=atomic
	RetainedConfigs []RetainedConfigReference `json:"retainedConfigs,omitempty"`
	// deployedToPods has one entry per pod that runs the output; on a checkpoint
	// exactly one, the receipt.
	// +optional
	// +listType=map
	// +listMapKey=podName
	DeployedToPods []PodDeploymentStatus `json:"deployedToPods,omitempty"`
	// auxiliaryFiles are the references of the committed set.
	// +optional
	AuxiliaryFiles *AuxiliaryFileReferences `json:"auxiliaryFiles,omitempty"`
	// validationError is HAProxy's message, on refused renders only.
	// +optional
	ValidationError string `json:"validationError,omitempty"`
	// observedGeneration is the generation last processed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are standard conditions.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RetainedConfigReference points at one checkpoint.
type RetainedConfigReference struct {
	// name of the checkpoint's HAProxyCfg.
	Name string `json:"name"`
	// uid of the checkpoint's HAProxyCfg.
	UID types.UID `json:"uid"`
	// checksum is the content checksum the checkpoint must have.
	Checksum string `json:"checksum"`
}

// AuxiliaryFileReferences are the files of one committed set, in publication order.
//
// +kubebuilder:pruning:PreserveUnknownFields
type AuxiliaryFileReferences struct {
	// setID identifies the set; equal to the annotation on the output.
	// +optional
	SetID string `json:"setID,omitempty"`
	// mapFiles are HAProxyMapFile objects.
	// +optional
	// +listType=atomic
	MapFiles []FileReference `json:"mapFiles,omitempty"`
	// sslCertificates are Secrets that hold a certificate with its key.
	// +optional
	// +listType=atomic
	SSLCertificates []FileReference `json:"sslCertificates,omitempty"`
	// sslCaFiles are Secrets that hold a CA bundle.
	// +optional
	// +listType=atomic
	SSLCaFiles []FileReference `json:"sslCaFiles,omitempty"`
	// generalFiles are HAProxyGeneralFile objects.
	// +optional
	// +listType=atomic
	GeneralFiles []FileReference `json:"generalFiles,omitempty"`
	// crtListFiles are HAProxyCRTListFile objects.
	// +optional
	// +listType=atomic
	CRTListFiles []FileReference `json:"crtListFiles,omitempty"`

	// Unsupported are the names of non-empty lists of a later release, sorted.
	// They are noticed when reading and never written.
	// +listType=atomic
	Unsupported []string `json:"-"`
}

// FileReference names one stored file.
type FileReference struct {
	// kind of the object that stores the file.
	Kind string `json:"kind"`
	// name of that object.
	Name string `json:"name"`
	// namespace of that object; equal to the output's own.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Modes a pod applied an output by.
const (
	ModeReload    = "reload"
	ModeRuntime   = "runtime"
	ModeFileOnly  = "file_only"
	ModeNoop      = "noop"
	ModeScheduled = "scheduled"
	ModeRejected  = "rejected"
)

// PodDeploymentStatus is one pod's account of an output. On a checkpoint it is
// the receipt (ADR-0033): history, not membership.
type PodDeploymentStatus struct {
	// podName is the pod's name and the key of the list.
	PodName string `json:"podName"`
	// podUID tells incarnations of one pod name apart.
	// +optional
	PodUID string `json:"podUID,omitempty"`
	// podRuntimeID tells runs of the proxy container apart.
	// +optional
	PodRuntimeID string `json:"podRuntimeID,omitempty"`
	// checksum of what the pod was given: the content checksum on an output, the file checksum on a file.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// appliedPlanID is the last plan the pod accepted.
	// +optional
	AppliedPlanID string `json:"appliedPlanID,omitempty"`
	// runningPlanID is the plan the worker was loaded with.
	// +optional
	RunningPlanID string `json:"runningPlanID,omitempty"`
	// workerOpsPlanID is the plan the worker reached by runtime operations.
	// +optional
	WorkerOpsPlanID string `json:"workerOpsPlanID,omitempty"`
	// mode is how the output was applied.
	// +kubebuilder:validation:Enum=runtime;file_only;reload;scheduled;noop;rejected
	// +optional
	Mode string `json:"mode,omitempty"`
	// reasons say why that mode was chosen.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
	// lastError is the last failed attempt.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// consecutiveErrors counts failed attempts since the last success.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ConsecutiveErrors int `json:"consecutiveErrors,omitempty"`
}

// HAProxyCfgList is a list of outputs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type HAProxyCfgList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HAProxyCfg `json:"items"`
}
