package api

import "time"

// Phase says what a pod is to a controller.
type Phase string

const (
	// PhaseBootstrap: the pod never took an output, and its files and worker
	// are the bootstrap configuration.
	PhaseBootstrap Phase = "bootstrap"
	// PhaseConfigured: the agent knows which output the pod has.
	PhaseConfigured Phase = "configured"
	// PhaseDisowned: the agent lost its state, its files do not match it, or
	// the worker was loaded with something else. An apply heals it; recovery
	// must leave it alone, since it may be serving.
	PhaseDisowned Phase = "disowned"
)

// WorkerStatus says whose worker HAProxy's master lists as the current one.
type WorkerStatus string

const (
	// WorkerOwned: the worker carries the nonce of the committed set.
	WorkerOwned WorkerStatus = "owned"
	// WorkerForeign: a worker answers and carries another nonce, or none.
	WorkerForeign WorkerStatus = "foreign"
	// WorkerAbsent: nothing answers, so nothing is known.
	WorkerAbsent WorkerStatus = "absent"
)

// SupervisorStatus says whether HAProxy's master answers. A worker may well serve
// while its master does not, and nothing can be loaded then.
type SupervisorStatus string

const (
	// SupervisorAnswering: the master answered the last question.
	SupervisorAnswering SupervisorStatus = "answering"
	// SupervisorSilent: something holds the master's socket and gave no answer
	// that can be read, for as long as a question may take.
	SupervisorSilent SupervisorStatus = "silent"
	// SupervisorAbsent: nobody listens at the master's socket.
	SupervisorAbsent SupervisorStatus = "absent"
)

// OldWorkers are workers of earlier loads that still have connections.
type OldWorkers struct {
	Count int `json:"count"`
	// Limit is the most that a reload may leave. At the limit the oldest is
	// stopped before the next reload.
	Limit int `json:"limit"`
}

// HAProxy identifies the running binary and its current worker, as they
// themselves say. Zero values mean that none answered.
type HAProxy struct {
	Version                   string `json:"version"`
	FullVersion               string `json:"full_version"`
	WorkerPID                 int64  `json:"worker_pid"`
	WorkerStartTimeUnixMicros int64  `json:"worker_start_time_unix_micros"`
}

// HasWorker reports that the worker's identity is known.
func (h HAProxy) HasWorker() bool {
	return h.WorkerPID > 0 && h.WorkerStartTimeUnixMicros > 0
}

// FileState is one file the pod holds for its applied plan.
type FileState struct {
	Digest string `json:"digest"`
	Proof  string `json:"proof"`
	Size   int64  `json:"size"`
}

// Plans are the plans a pod is at, each with the proof that tells two plans of
// one ID apart. Results and conflicts carry them too.
type Plans struct {
	AppliedPlanID    string `json:"applied_plan_id"`
	AppliedPlanProof string `json:"applied_plan_proof"`
	// Running is what the current worker was loaded with; empty when no worker
	// that is ours answers.
	RunningPlanID    string `json:"running_plan_id"`
	RunningPlanProof string `json:"running_plan_proof"`
	// WorkerOps is set only after runtime operations moved the worker past the
	// plan it was loaded with.
	WorkerOpsPlanID    string `json:"worker_ops_plan_id"`
	WorkerOpsPlanProof string `json:"worker_ops_plan_proof"`
	LKGPlanID          string `json:"lkg_plan_id"`
	LKGPlanProof       string `json:"lkg_plan_proof"`
}

// State is the answer of RouteState.
type State struct {
	APIVersion        int      `json:"api_version"`
	AgentVersion      string   `json:"agent_version"`
	PlanSchemaVersion int      `json:"plan_schema_version"`
	AgentOps          []string `json:"agent_ops"`
	Features          []string `json:"features"`

	PodName     string `json:"pod_name"`
	PodUID      string `json:"pod_uid"`
	TemplateUID string `json:"template_uid"`

	Phase        Phase        `json:"phase"`
	WorkerStatus WorkerStatus `json:"worker_status"`
	HAProxy      HAProxy      `json:"haproxy"`
	Generation   uint64       `json:"generation"`

	SupervisorStatus SupervisorStatus `json:"supervisor_status,omitempty"`
	// StartFlags are the options the running master was started with, without
	// files and sockets; absent where another container's process is not seen.
	// One without -dr takes no output that names a server which does not resolve.
	StartFlags []string `json:"start_flags,omitempty"`
	// OldWorkers is absent while the master's table cannot be read: unknown is
	// not none.
	OldWorkers *OldWorkers `json:"old_workers,omitempty"`
	// ReloadPendingAt is when a scheduled reload is due, absent when there is
	// none. The applied plan is then the one to be loaded, and the running plan
	// still the one before. A time in the past means that the reload waits for
	// an old worker to end.
	ReloadPendingAt *time.Time `json:"reload_pending_at,omitempty"`
	Plans
	AppliedToken Token `json:"applied_token"`
	// EpochFloor is the highest epoch this pod heard of, from an announcement
	// or an apply, refused applies included.
	EpochFloor uint64 `json:"epoch_floor"`

	AppliedPlan       []byte               `json:"applied_plan,omitempty"`
	AppliedPlanStored bool                 `json:"applied_plan_stored"`
	Files             map[string]FileState `json:"files"`

	// Verified says that this answer was computed with verify=1.
	Verified           bool    `json:"verified"`
	LastApply          *Result `json:"last_apply,omitempty"`
	InvariantViolation string  `json:"invariant_violation,omitempty"`
}

// IsBootstrap reports that the pod never took an output and may be recovered.
func (s *State) IsBootstrap() bool {
	return s.Phase == PhaseBootstrap &&
		s.Plans == Plans{} &&
		!s.AppliedPlanStored && s.AppliedToken.IsZero() &&
		s.WorkerStatus == WorkerOwned && s.HAProxy.HasWorker() &&
		s.ReloadPendingAt == nil && s.InvariantViolation == ""
}

// Outcome is how an apply ended.
type Outcome string

const (
	// OutcomeReload: a new worker was seen running the output.
	OutcomeReload Outcome = "reload"
	// OutcomeScheduled: the output is taken, and its reload is put off to
	// Result.ReloadPendingAt. The applied plan is this output, the running plan
	// the one before; neither proves anything about the output. What became of
	// it is in State.LastApply once State.ReloadPendingAt is gone.
	OutcomeScheduled Outcome = "scheduled"
	// OutcomeRuntime: the running worker was changed without a reload, read
	// back, and equals the output.
	OutcomeRuntime Outcome = "runtime"
	// OutcomeFileOnly: the files are the output's, and no worker had to change.
	OutcomeFileOnly Outcome = "file_only"
	// OutcomeNoop: the pod already had exactly this output, running.
	OutcomeNoop Outcome = "noop"
	// OutcomeRejected: the output does not run, and the set before it is back.
	OutcomeRejected Outcome = "rejected"
)

// Stages of a Result's error.
const (
	// StageReload: HAProxy refused the output.
	StageReload = "reload"
	// StageUnresolved: no worker was seen to run the output in time, and none
	// was seen to refuse it.
	StageUnresolved = "unresolved"
	// StageFenced: a later term was heard of before a scheduled reload was due.
	StageFenced = "fenced"
)

// ErrorDetail says where an apply or a request went wrong.
type ErrorDetail struct {
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// Reload tells what a reload did, whatever its outcome.
type Reload struct {
	// PreviousPID is the worker before, zero when none answered.
	PreviousPID int64 `json:"previous_pid"`
	// WorkerPID is the worker that was current when the outcome was known.
	WorkerPID int64 `json:"worker_pid"`
	// Log is HAProxy's start-up log where the running version gives one.
	Log string `json:"log,omitempty"`
}

// Timing is where the time of an apply went.
type Timing struct {
	TotalMicros  int64 `json:"total_micros"`
	StageMicros  int64 `json:"stage_micros"`
	ReloadMicros int64 `json:"reload_micros"`
}

// Result is the answer to an apply that was carried out, refused by HAProxy or
// not. The plans are the pod's, afterwards.
type Result struct {
	PlanID string  `json:"plan_id"`
	OK     bool    `json:"ok"`
	Mode   Outcome `json:"mode"`
	Plans
	AppliedToken Token `json:"applied_token"`
	// OpResults are there when operations were tried, be it before a reload.
	OpResults []OpResult `json:"op_results,omitempty"`
	// ReloadPendingAt is set with OutcomeScheduled alone.
	ReloadPendingAt *time.Time   `json:"reload_pending_at,omitempty"`
	Reload          *Reload      `json:"reload,omitempty"`
	Rollback        bool         `json:"rollback"`
	Error           *ErrorDetail `json:"error,omitempty"`
	HAProxy         HAProxy      `json:"haproxy"`
	At              time.Time    `json:"at"`
	Timing          Timing       `json:"timing"`
}

// DrainReport is the answer of RouteDrain.
type DrainReport struct {
	Reason      DrainReason `json:"reason"`
	Waited      string      `json:"waited"`
	Connections int64       `json:"connections"`
}

// DrainReason says why a drain ended.
type DrainReason string

const (
	// DrainQuiet: no connection was open for the whole quiet period.
	DrainQuiet DrainReason = "quiet"
	// DrainBound: connections were still open when the time was up.
	DrainBound DrainReason = "bound"
	// DrainUnavailable: the worker could not be asked.
	DrainUnavailable DrainReason = "unavailable"
	// DrainCancelled: whoever asked went away.
	DrainCancelled DrainReason = "cancelled"
)
