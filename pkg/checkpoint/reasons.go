package checkpoint

// Reason is one of the constants below: a closed list that operators, alerts
// and tests may rely on.
type Reason string

// Reasons of the state Verified, and of the state Unknown before anything is known.
const (
	// ReasonVerified: every check passed.
	ReasonVerified Reason = "Verified"
	// ReasonVerifying: bytes have not been read yet; the verdict will come.
	ReasonVerifying Reason = "Verifying"
)

// Reasons of the state Damaged that concern the checkpoint object.
const (
	// ReasonOwnerMismatch: the controller owner is not what it must be in group,
	// kind, name, namespace or UID.
	ReasonOwnerMismatch Reason = "OwnerMismatch"
	// ReasonTerminating: the object is being deleted.
	ReasonTerminating Reason = "Terminating"
	// ReasonPointerMismatch: the promoted pointer has another UID or checksum.
	ReasonPointerMismatch Reason = "PointerMismatch"
	// ReasonPayloadMissing: spec.retainedPlan is empty.
	ReasonPayloadMissing Reason = "PayloadMissing"
	// ReasonPayloadUnreadable: spec.retainedPlan does not decode.
	ReasonPayloadUnreadable Reason = "PayloadUnreadable"
	// ReasonNameMismatch: the object's name is not the one its checksum and payload give.
	ReasonNameMismatch Reason = "NameMismatch"
	// ReasonConfigurationUnreadable: spec.content does not decode or is empty.
	ReasonConfigurationUnreadable Reason = "ConfigurationUnreadable"
	// ReasonConfigurationPathMissing: spec.path is empty.
	ReasonConfigurationPathMissing Reason = "ConfigurationPathMissing"
	// ReasonContentChecksumMismatch: the content checksum is not spec.checksum.
	ReasonContentChecksumMismatch Reason = "ContentChecksumMismatch"
	// ReasonEvidenceMismatch: the stored evidence is not that of what is stored.
	ReasonEvidenceMismatch Reason = "EvidenceMismatch"
)

// Reasons of the state Damaged that concern the plan.
const (
	// ReasonPlanIDMismatch: the plan's ID is not the digest of the plan.
	ReasonPlanIDMismatch Reason = "PlanIDMismatch"
	// ReasonSectionMismatch: the sections do not tile the configuration.
	ReasonSectionMismatch Reason = "SectionMismatch"
	// ReasonBackendsMismatch: payload and plan name different backends.
	ReasonBackendsMismatch Reason = "BackendsMismatch"
	// ReasonBackendTextMismatch: a backend's lines do not hash to the plan's digest.
	ReasonBackendTextMismatch Reason = "BackendTextMismatch"
	// ReasonPlanFilesMismatch: plan files and artifacts are not the same set.
	ReasonPlanFilesMismatch Reason = "PlanFilesMismatch"
	// ReasonPlanDigestMismatch: a file's size or digest is not the plan's.
	ReasonPlanDigestMismatch Reason = "PlanDigestMismatch"
	// ReasonMapEntriesMismatch: a map's entries are not those of the plan.
	ReasonMapEntriesMismatch Reason = "MapEntriesMismatch"
	// ReasonDuplicatePath: two files claim one runtime path.
	ReasonDuplicatePath Reason = "DuplicatePath"
	// ReasonDuplicateArtifact: two artifacts or two children are one file.
	ReasonDuplicateArtifact Reason = "DuplicateArtifact"
)

// Reasons of the state Damaged that concern references and children.
const (
	// ReasonReferencesMissing: a promoted checkpoint has no committed references.
	ReasonReferencesMissing Reason = "ReferencesMissing"
	// ReasonSetIDMismatch: set ID annotation and committed set ID differ.
	ReasonSetIDMismatch Reason = "SetIDMismatch"
	// ReasonReferenceInvalid: a reference has a kind, name or namespace it cannot have.
	ReasonReferenceInvalid Reason = "ReferenceInvalid"
	// ReasonDuplicateReference: an object is referenced twice.
	ReasonDuplicateReference Reason = "DuplicateReference"
	// ReasonChildMissing: a referenced object does not exist.
	ReasonChildMissing Reason = "ChildMissing"
	// ReasonArtifactMissing: no referenced object stores a declared artifact.
	ReasonArtifactMissing Reason = "ArtifactMissing"
	// ReasonUndeclaredChild: a referenced object is no declared artifact.
	ReasonUndeclaredChild Reason = "UndeclaredChild"
	// ReasonPathMismatch: a child declares another path than its artifact.
	ReasonPathMismatch Reason = "PathMismatch"
	// ReasonFileNameMismatch: a general file's name is not the declared one.
	ReasonFileNameMismatch Reason = "FileNameMismatch"
	// ReasonFamilyMismatch: a child stands in the reference list of another family.
	ReasonFamilyMismatch Reason = "FamilyMismatch"
	// ReasonPathMissing: a child declares no path.
	ReasonPathMissing Reason = "PathMissing"
	// ReasonEmptyMismatch: the empty mark contradicts content or compression.
	ReasonEmptyMismatch Reason = "EmptyMismatch"
	// ReasonContentUnreadable: a child's content does not decode.
	ReasonContentUnreadable Reason = "ContentUnreadable"
	// ReasonChecksumMismatch: a child's bytes do not hash to its checksum.
	ReasonChecksumMismatch Reason = "ChecksumMismatch"
	// ReasonChildNameMismatch: a child's name does not carry the digest of its content.
	ReasonChildNameMismatch Reason = "ChildNameMismatch"
	// ReasonSecretMalformed: a Secret has another type, label, key or annotation
	// than a certificate or CA bundle has.
	ReasonSecretMalformed Reason = "SecretMalformed"
)

// Reasons of bounds. What is beyond them could never have been applied.
const (
	// ReasonTooLarge: a value, or all values together, exceed the size bound.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonTooManyFiles: more artifacts, references or plan files than the bound.
	ReasonTooManyFiles Reason = "TooManyFiles"
	// ReasonTooManySections: more sections than the bound.
	ReasonTooManySections Reason = "TooManySections"
)

// Reasons of the state Unknown.
const (
	// ReasonUncommitted: publication is in progress or was interrupted.
	ReasonUncommitted Reason = "Uncommitted"
	// ReasonUnsupportedSchema: the plan is of another format version.
	ReasonUnsupportedSchema Reason = "UnsupportedSchema"
	// ReasonUnsupportedFamily: an artifact or list of a later release.
	ReasonUnsupportedFamily Reason = "UnsupportedFamily"
	// ReasonUnsupportedSetID: the set ID has a form this reader does not know.
	ReasonUnsupportedSetID Reason = "UnsupportedSetID"
	// ReasonNonCanonical: repeated or differently spelled JSON members, which two
	// readers may read differently.
	ReasonNonCanonical Reason = "NonCanonical"
	// ReasonNotPermitted: there is no right to read an object.
	ReasonNotPermitted Reason = "NotPermitted"
	// ReasonNameFormUnknown: a shared child's name has no content digest where
	// this reader looks for one.
	ReasonNameFormUnknown Reason = "NameFormUnknown"
	// ReasonBackendTextUnverifiable: a backend's lines do not hash to the plan's
	// digest under the rule known to us, in a checkpoint without evidence.
	ReasonBackendTextUnverifiable Reason = "BackendTextUnverifiable"
	// ReasonMapEntriesUnverifiable: a map's entries are not those of the plan
	// under the rule known to us, in a checkpoint without evidence.
	ReasonMapEntriesUnverifiable Reason = "MapEntriesUnverifiable"
)

// Reasons of notes, which lower no verdict.
const (
	// ReasonSetIdentityUnverifiable: the set ID is not the one we would compute,
	// in a checkpoint that another publisher may have written. All it protects is
	// checked elsewhere.
	ReasonSetIdentityUnverifiable Reason = "SetIdentityUnverifiable"
	// ReasonUnknownMembers: the plan has members of a later release.
	ReasonUnknownMembers Reason = "UnknownMembers"
	// ReasonLabelMismatch: a label does not name the template. Recovery goes by
	// owner; only collection goes by label.
	ReasonLabelMismatch Reason = "LabelMismatch"
	// ReasonReceiptMissing: no per-pod entry proves that a worker ran the output.
	ReasonReceiptMissing Reason = "ReceiptMissing"
)
