package v1alpha1

// Kinds of the stored objects, as they appear in owner references and in the
// reference lists of an output.
const (
	KindTemplateConfig = "HAProxyTemplateConfig"
	KindCfg            = "HAProxyCfg"
	KindMapFile        = "HAProxyMapFile"
	KindGeneralFile    = "HAProxyGeneralFile"
	KindCRTListFile    = "HAProxyCRTListFile"
	// KindSecret is the core kind that holds certificates and CA bundles.
	KindSecret = "Secret"
)

// Labels on stored objects. Their values are part of the wire format.
const (
	// LabelTemplateConfig names the template on every HAProxyCfg, verbatim.
	LabelTemplateConfig = "haproxy-haptic.org/template-config"
	// LabelRetainedFor holds the template UID, on checkpoints only.
	LabelRetainedFor = "haproxy-haptic.org/retained-for"
	// LabelRuntimeConfig holds the label value of the owning HAProxyCfg's name,
	// on children that a HAProxyCfg owns.
	LabelRuntimeConfig = "haproxy-haptic.org/runtime-config"
	// LabelType tells the role of a Secret: one of the SecretType values.
	LabelType = "haproxy-haptic.org/type"
)

// Values of LabelType.
const (
	SecretTypeCertificate = "ssl-certificate"
	SecretTypeCA          = "ssl-ca"
)

// Annotations on stored objects and Leases.
const (
	// AnnotationAuxiliarySetID carries the set ID on every HAProxyCfg.
	AnnotationAuxiliarySetID = "haproxy-haptic.org/auxiliary-set-id"
	// AnnotationAuxiliaryClaim carries the claim of the publication that
	// introduced a child (ADR-0031). It is opaque to readers.
	AnnotationAuxiliaryClaim = "haproxy-haptic.org/auxiliary-claim"
	// AnnotationAuxiliaryPath carries the full file path, on Secrets.
	AnnotationAuxiliaryPath = "haproxy-haptic.org/auxiliary-path"
	// AnnotationChecksum carries the file checksum of the uncompressed bytes, on Secrets.
	AnnotationChecksum = "haproxy-haptic.org/checksum"
	// AnnotationCompressed is exactly "true" or "false", on Secrets.
	AnnotationCompressed = "haproxy-haptic.org/compressed"
	// AnnotationDeploymentIntent carries the intent record as JSON, on Leases.
	AnnotationDeploymentIntent = "haproxy-haptic.org/deployment-intent"
	// AnnotationLeaderEpoch carries the epoch, a decimal uint64, on the
	// leader-election Lease. Its prefix differs from the others' by history.
	AnnotationLeaderEpoch = "haptic.io/leader-epoch"
)

// Keys of a Secret's data.
const (
	SecretKeyCertificate = "certificate"
	SecretKeyCA          = "ca"
	SecretKeyPath        = "path"
)
