package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentIntent is the view of the output a template's fleet was last told
// to run, and of the checkpoint that would restore it.
//
// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type DeploymentIntent struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the template's name and creation time, and a UID of its own.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is computed from the template, its Leases and its checkpoints.
	Status DeploymentIntentStatus `json:"status,omitempty"`
}

// Condition types of a DeploymentIntent. Recoverable is shared with
// RetainedCheckpoint.
const (
	// ConditionReadable: the intent record parses and belongs to the template.
	ConditionReadable = "Readable"
	// ConditionFenced: the record was written by the term that holds the leader-election Lease.
	ConditionFenced = "Fenced"
	// ConditionCheckpointed: a stored checkpoint holds the intended output.
	ConditionCheckpointed = "Checkpointed"
	// ConditionActive: replacement pods are being served from a checkpoint.
	ConditionActive = "Active"
)

// DeploymentIntentStatus is everything known of an intent.
type DeploymentIntentStatus struct {
	// template is the HAProxyTemplateConfig the intent belongs to.
	Template TemplateReference `json:"template"`
	// intent is the effective intent; absent if nothing was ever deployed or nothing can be read.
	// +optional
	Intent *Intent `json:"intent,omitempty"`
	// source is the Lease the effective intent was read from.
	// +optional
	Source *LeaseReference `json:"source,omitempty"`
	// checkpoint is the stored checkpoint the intent names, if there is one.
	// +optional
	Checkpoint string `json:"checkpoint,omitempty"`
	// active describes recovery in force; absent when none is, or when nothing records it.
	// +optional
	Active *ActiveRecovery `json:"active,omitempty"`
	// conditions are Readable, Fenced, Checkpointed, Recoverable and Active.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Intent is the output the fleet was last told to run.
type Intent struct {
	// planID of the output.
	PlanID string `json:"planID"`
	// checksum is the content checksum of the output.
	Checksum string `json:"checksum"`
	// holder is the controller that recorded it; empty for records of HAPTIC 0.5 and 0.6.
	// +optional
	Holder string `json:"holder,omitempty"`
	// epoch is the term that recorded it.
	Epoch uint64 `json:"epoch"`
	// claimFingerprint tells claims apart without revealing the writer's token: 12 hex digits of its SHA-256.
	// +optional
	ClaimFingerprint string `json:"claimFingerprint,omitempty"`
}

// LeaseReference names a Lease of the same namespace.
type LeaseReference struct {
	// name of the Lease.
	Name string `json:"name"`
	// role is LeaderElection or RetainedState.
	Role string `json:"role"`
}

// ActiveRecovery says which checkpoint serves replacement pods.
type ActiveRecovery struct {
	// checksum of that checkpoint.
	Checksum string `json:"checksum"`
	// since when.
	Since metav1.Time `json:"since"`
}

// DeploymentIntentList is a list of DeploymentIntents.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type DeploymentIntentList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata carries the version of the list.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are sorted by namespace and name.
	Items []DeploymentIntent `json:"items"`
}
