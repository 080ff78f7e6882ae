package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RetainedCheckpoint is the view of one stored, acknowledged output: what it
// consists of, whether it verifies, and whether recovery would use it.
//
// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RetainedCheckpoint struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is taken from the stored checkpoint, with a UID of its own.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is computed from the stored objects.
	Status RetainedCheckpointStatus `json:"status,omitempty"`
}

// Condition types of a RetainedCheckpoint.
const (
	// ConditionVerified: every stored byte is what its names and checksums say.
	ConditionVerified = "Verified"
	// ConditionPromoted: the template's ordinary output points at the checkpoint.
	ConditionPromoted = "Promoted"
	// ConditionAcknowledged: a receipt proves that a worker ran the output (ADR-0033).
	ConditionAcknowledged = "Acknowledged"
	// ConditionIntended: the effective intent names the checkpoint.
	ConditionIntended = "Intended"
	// ConditionRecoverable: recovery would select the checkpoint.
	ConditionRecoverable = "Recoverable"
)

// Position tells where a checkpoint stands in its template's pointer list.
// +enum
type Position string

const (
	// PositionNewest is the first pointer.
	PositionNewest Position = "Newest"
	// PositionPredecessor is the second pointer.
	PositionPredecessor Position = "Predecessor"
	// PositionRetained is any later pointer.
	PositionRetained Position = "Retained"
	// PositionUnpromoted has no pointer.
	PositionUnpromoted Position = "Unpromoted"
)

// RetainedCheckpointStatus is everything known of a checkpoint.
type RetainedCheckpointStatus struct {
	// template is the HAProxyTemplateConfig the checkpoint belongs to.
	Template TemplateReference `json:"template"`
	// checksum is the content checksum over configuration and files: 16 hex digits.
	Checksum string `json:"checksum"`
	// planID identifies the plan the output declares. Empty if the payload cannot be read.
	// +optional
	PlanID string `json:"planID,omitempty"`
	// evidence is a SHA-256 over a framed list of configuration, plan and files. It is computed by
	// the server, and compared with the stored value where the checkpoint carries one.
	// +optional
	Evidence string `json:"evidence,omitempty"`
	// position in the template's pointer list: Newest, Predecessor, Retained or Unpromoted.
	Position Position `json:"position"`
	// configuration describes the main configuration file.
	// +optional
	Configuration *ConfigurationSummary `json:"configuration,omitempty"`
	// artifacts are the auxiliary files, in walk order.
	// +optional
	// +listType=atomic
	Artifacts []ArtifactStatus `json:"artifacts,omitempty"`
	// receipt is the stored proof that a pod's worker ran the output. It is history: its pod may be gone.
	// +optional
	Receipt *Receipt `json:"receipt,omitempty"`
	// pods are the pods that report this checksum on the ordinary output.
	// +optional
	// +listType=atomic
	Pods []PodReport `json:"pods,omitempty"`
	// conditions are Verified, Promoted, Acknowledged, Intended and Recoverable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TemplateReference names a HAProxyTemplateConfig of the same namespace.
type TemplateReference struct {
	// name of the template.
	Name string `json:"name"`
	// uid of the template.
	UID types.UID `json:"uid"`
}

// ConfigurationSummary describes a configuration without its text.
type ConfigurationSummary struct {
	// path of the file.
	Path string `json:"path"`
	// size of the text in bytes.
	Size int64 `json:"size"`
	// sha256 of the text: sha256: and 64 hex digits.
	SHA256 string `json:"sha256"`
}

// ArtifactStatus describes one auxiliary file without its content.
type ArtifactStatus struct {
	// family is Map, General, Certificate, CA, CRTList or GeneralCA.
	Family string `json:"family"`
	// name is the file's logical name.
	Name string `json:"name"`
	// path of the file.
	Path string `json:"path"`
	// size of the content in bytes; absent if it could not be read.
	// +optional
	Size *int64 `json:"size,omitempty"`
	// checksum is the SHA-256 of the content as stored now.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// object stores the file.
	// +optional
	Object *ObjectReference `json:"object,omitempty"`
	// shared says that the template owns the object, so that other checkpoints may reference it too.
	// +optional
	Shared bool `json:"shared,omitempty"`
	// verdict is Verified, Damaged or Unknown.
	Verdict string `json:"verdict"`
	// reason says why, from the closed list of reasons.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message names object, field, what was expected and what was found.
	// +optional
	Message string `json:"message,omitempty"`
}

// ObjectReference names a stored object of the same namespace.
type ObjectReference struct {
	// kind of the object.
	Kind string `json:"kind"`
	// name of the object.
	Name string `json:"name"`
	// uid of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// Receipt is the stored proof of a worker's uptake.
type Receipt struct {
	// pod that acknowledged.
	Pod string `json:"pod"`
	// podUID of that pod.
	PodUID string `json:"podUID"`
	// runtimeID of its proxy container.
	RuntimeID string `json:"runtimeID"`
	// mode the output was applied by.
	Mode string `json:"mode"`
}

// PodReport is one pod's entry on the ordinary output.
type PodReport struct {
	// name of the pod.
	Name string `json:"name"`
	// uid of the pod.
	// +optional
	UID string `json:"uid,omitempty"`
	// runningPlanID is the plan its worker was loaded with.
	// +optional
	RunningPlanID string `json:"runningPlanID,omitempty"`
}

// RetainedCheckpointList is a list of RetainedCheckpoints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RetainedCheckpointList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata carries the version of the list.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are sorted by namespace and name.
	Items []RetainedCheckpoint `json:"items"`
}
