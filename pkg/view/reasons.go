package view

// Reasons of conditions, beside those of verdicts (pkg/checkpoint), which the
// condition Verified carries as they are. A closed list, like theirs.
const (
	// Promoted.
	ReasonPromoted      = "Promoted"
	ReasonUnpromoted    = "Unpromoted"
	ReasonOutputMissing = "OrdinaryOutputMissing"

	// Acknowledged.
	ReasonReceiptStored    = "ReceiptStored"
	ReasonReceiptMissing   = "ReceiptMissing"
	ReasonPlanUnreadable   = "PlanUnreadable"
	ReasonTemplateMissing  = "TemplateMissing"
	ReasonTerminating      = "Terminating"
	ReasonIntended         = "Intended"
	ReasonIntentNamesOther = "IntentNamesAnotherOutput"
	ReasonNoIntent         = "NoIntent"
	ReasonIntentUnreadable = "IntentUnreadable"
	ReasonNotPermitted     = "NotPermitted"

	// Recoverable.
	ReasonRecoverable     = "Recoverable"
	ReasonNotPromoted     = "NotPromoted"
	ReasonNotVerified     = "NotVerified"
	ReasonNotAcknowledged = "NotAcknowledged"
	ReasonNotIntended     = "NotIntended"
	ReasonNotCheckpointed = "NotCheckpointed"

	// Readable.
	ReasonIntentRead      = "IntentRead"
	ReasonLeasesDisagree  = "LeasesDisagree"
	ReasonOtherUnreadable = "OtherLeaseUnreadable"

	// Fenced.
	ReasonLeaderRecorded = "LeaderRecorded"
	ReasonNoLeader       = "NoLeader"
	ReasonOtherLeader    = "OtherLeader"
	ReasonStandalone     = "Standalone"
	ReasonEpochUnknown   = "EpochUnreadable"

	// Checkpointed.
	ReasonStored    = "CheckpointStored"
	ReasonNotStored = "CheckpointMissing"

	// Active.
	ReasonRecovering  = "Recovering"
	ReasonNotActive   = "NotActive"
	ReasonNotRecorded = "NotRecorded"
)
