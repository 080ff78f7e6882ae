package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConditionValidated is the condition of a template that tells whether its last
// render passed the templates and HAProxy's own check.
const ConditionValidated = "Validated"

// ConditionHTTPResources is the condition of a template with httpResources that
// tells whether all of them are fetched and in use as they are now.
const ConditionHTTPResources = "HTTPResourcesCurrent"

// HAProxyTemplateConfig says which resources are watched, which pods are fed,
// and how the output is rendered. Its UID is the root of trust for everything
// that is stored for it.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=htplcfg;haptpl,scope=Namespaced
// +kubebuilder:printcolumn:name="Validated",type=string,JSONPath=`.status.conditions[?(@.type=="Validated")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Validated")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyTemplateConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the controller renders and where it goes.
	Spec HAProxyTemplateConfigSpec `json:"spec"`
	// status tells how the last render went.
	// +optional
	Status HAProxyTemplateConfigStatus `json:"status,omitempty"`
}

// HAProxyTemplateConfigSpec is the input of a template.
//
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyTemplateConfigSpec struct {
	// podSelector selects the proxy pods, in the template's namespace.
	PodSelector PodSelector `json:"podSelector"`
	// watchedResources are the inputs of the templates, by the name templates use.
	// +optional
	WatchedResources map[string]WatchedResource `json:"watchedResources,omitempty"`
	// httpResources are documents fetched over HTTP, by the name templates use.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	HTTPResources map[string]HTTPResource `json:"httpResources,omitempty"`
	// templateSnippets are named templates that the others include.
	// +optional
	TemplateSnippets map[string]Template `json:"templateSnippets,omitempty"`
	// maps are HAProxy map files, by file name.
	// +optional
	Maps map[string]Template `json:"maps,omitempty"`
	// files are general files such as error pages, by file name.
	// +optional
	Files map[string]Template `json:"files,omitempty"`
	// sslCertificates are PEM bundles of certificate and key, by file name.
	// +optional
	SSLCertificates map[string]Template `json:"sslCertificates,omitempty"`
	// haproxyConfig is the main configuration.
	HAProxyConfig Template `json:"haproxyConfig"`
	// templatingSettings are values the templates can read.
	// +optional
	TemplatingSettings TemplatingSettings `json:"templatingSettings,omitempty"`
	// controller tunes leader election and publication.
	// +optional
	Controller ControllerSettings `json:"controller,omitempty"`
	// dataplane tunes deployment to the proxy pods.
	// +optional
	Dataplane DataplaneSettings `json:"dataplane,omitempty"`
}

// PodSelector selects pods by their labels.
type PodSelector struct {
	// matchLabels must all be present on a proxy pod.
	// +kubebuilder:validation:MinProperties=1
	MatchLabels map[string]string `json:"matchLabels"`
}

// WatchedResource is one kind of input.
type WatchedResource struct {
	// apiVersion is the group and version, such as networking.k8s.io/v1.
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// resources is the plural resource name, such as ingresses.
	// +kubebuilder:validation:MinLength=1
	Resources string `json:"resources"`
	// namespaces limits the watch; empty means the template's own namespace, "*" all of them.
	// +optional
	// +listType=atomic
	Namespaces []string `json:"namespaces,omitempty"`
	// labelSelector limits the watch to objects with matching labels.
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// fieldSelector limits the watch by fields the resource supports.
	// +optional
	FieldSelector string `json:"fieldSelector,omitempty"`
	// indexBy are the JSONPath expressions by whose values templates look objects up.
	// +optional
	// +listType=atomic
	IndexBy []string `json:"indexBy,omitempty"`
}

// HTTPResource is a document that is fetched again and again. New content is
// used once a complete output with it has passed HAProxy's check; until then,
// and while the document cannot be fetched, the last content that did stays.
type HTTPResource struct {
	// url is where the document is, over http or https. Its user information and
	// query are never told in messages.
	// +kubebuilder:validation:Pattern=`^https?://`
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// interval is the time between two fetches. Default 60s, at least 1s.
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`
	// critical makes it a render failure that the document was never fetched.
	// Otherwise its content is empty until it was.
	// +optional
	Critical bool `json:"critical,omitempty"`
	// timeout bounds one fetch, redirects included. Default 5s, at most 1m.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// maxBytes bounds the document; a larger one is refused. Default 1048576.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8388608
	// +optional
	MaxBytes *int64 `json:"maxBytes,omitempty"`
}

// Template is the text of one Go template.
type Template struct {
	// template is the text.
	// +kubebuilder:validation:MinLength=1
	Template string `json:"template"`
}

// TemplatingSettings are values for templates.
type TemplatingSettings struct {
	// extraContext is merged into the templates' top-level values.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	ExtraContext *runtime.RawExtension `json:"extraContext,omitempty"`
}

// ControllerSettings tune the controller.
type ControllerSettings struct {
	// leaderElection tunes the leader-election Lease.
	// +optional
	LeaderElection LeaderElectionSettings `json:"leaderElection,omitempty"`
	// configPublishing tunes what is stored.
	// +optional
	ConfigPublishing ConfigPublishingSettings `json:"configPublishing,omitempty"`
}

// LeaderElectionSettings tune leader election.
type LeaderElectionSettings struct {
	// enabled is true unless a single controller runs alone.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// leaseName defaults to the template's name followed by -leader.
	// +optional
	LeaseName string `json:"leaseName,omitempty"`
	// leaseDuration is how long a silent leader keeps the Lease. Default 15s.
	// +optional
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`
	// renewDeadline is how long a leader tries to renew before it gives up. Default 10s.
	// +optional
	RenewDeadline *metav1.Duration `json:"renewDeadline,omitempty"`
	// retryPeriod is the time between attempts. Default 2s.
	// +optional
	RetryPeriod *metav1.Duration `json:"retryPeriod,omitempty"`
}

// ConfigPublishingSettings tune stored outputs.
type ConfigPublishingSettings struct {
	// compressionThreshold is the size in bytes above which content is stored
	// compressed; 0 never compresses. Default 1048576.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CompressionThreshold *int64 `json:"compressionThreshold,omitempty"`
}

// DataplaneSettings tune deployment.
type DataplaneSettings struct {
	// minDeploymentInterval is the shortest time between two deployments. Default 2s.
	// +optional
	MinDeploymentInterval *metav1.Duration `json:"minDeploymentInterval,omitempty"`
	// driftPreventionInterval is how often pods are read and re-verified. Default 60s.
	// +optional
	DriftPreventionInterval *metav1.Duration `json:"driftPreventionInterval,omitempty"`
	// deploymentTimeout bounds one deployment to one pod. Default 30s.
	// +optional
	DeploymentTimeout *metav1.Duration `json:"deploymentTimeout,omitempty"`
	// configPublishInterval throttles publication. Default 10s.
	// +optional
	ConfigPublishInterval *metav1.Duration `json:"configPublishInterval,omitempty"`
}

// HAProxyTemplateConfigStatus tells how the last render went.
//
// +kubebuilder:pruning:PreserveUnknownFields
type HAProxyTemplateConfigStatus struct {
	// observedGeneration is the generation last rendered.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are standard conditions; Validated tells whether the last render passed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HAProxyTemplateConfigList is a list of templates.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type HAProxyTemplateConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HAProxyTemplateConfig `json:"items"`
}
