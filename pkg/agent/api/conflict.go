package api

// Reason says why a request was a conflict (409).
type Reason string

const (
	// ReasonWrongPod: this agent is not the pod the request is meant for.
	ReasonWrongPod Reason = "wrong_pod"
	// ReasonWrongTemplate: this pod belongs to another template.
	ReasonWrongTemplate Reason = "wrong_template"
	// ReasonStaleEpoch: the token lies before one this pod has seen, or below
	// the announced floor. The sender's term is over.
	ReasonStaleEpoch Reason = "stale_epoch"
	// ReasonEpochJump: the epoch lies more than MaxEpochJump above all seen.
	ReasonEpochJump Reason = "epoch_jump"
	// ReasonTokenReused: the token already named another plan.
	ReasonTokenReused Reason = "token_reused"
	// ReasonPhaseMismatch: the pod is not in the expected phase.
	ReasonPhaseMismatch Reason = "phase_mismatch"
	// ReasonPrevMismatch: the pod's plan, its proof or its token is another.
	ReasonPrevMismatch Reason = "prev_mismatch"
	// ReasonUnknownBaseline: a plan is expected and the pod knows of none.
	ReasonUnknownBaseline Reason = "unknown_baseline"
	// ReasonRevertTargetMismatch: the plan to leave is not carried by this pod,
	// is run by its worker, or there is no other good set to go back to.
	ReasonRevertTargetMismatch Reason = "revert_target_mismatch"
)

// Conflict is the body of a 409 other than missing files: where the pod is, so
// that the sender can decide without a second request.
type Conflict struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	Plans
	AppliedToken Token  `json:"applied_token"`
	EpochFloor   uint64 `json:"epoch_floor"`
	Phase        Phase  `json:"phase"`
	PodUID       string `json:"pod_uid"`
	TemplateUID  string `json:"template_uid"`
}

// Missing is the body of a 409 that asks for files. Paths are sorted; exactly
// these must be sent, whole, with the same manifest but for their patches.
type Missing struct {
	Missing []string `json:"missing"`
}

// Stages of the ErrorDetail that answers a request with 400, 500 or 503.
const (
	StageStartup  = "startup"
	StageRequest  = "request"
	StageManifest = "manifest"
	StageParts    = "parts"
	StageState    = "state"
	StageFiles    = "files"
	StageIdentity = "identity"
	// StageBusy: too many uploads at once; the request may be repeated.
	StageBusy = "busy"
)
