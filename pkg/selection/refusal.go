package selection

import "strings"

// Reasons of the events that tell of a recovery, fixed by ADR-0033.
const (
	EventActive      = "RetainedConfigActive"
	EventUnavailable = "RetainedConfigUnavailable"
)

// Reason says why no pod, or not this pod, was started from a checkpoint: one
// of the constants below, a closed list that alerts and runbooks rely on.
type Reason string

// Reasons that concern the intent.
const (
	// ReasonIntentUnreadable: the Leases could not be read.
	ReasonIntentUnreadable Reason = "IntentUnreadable"
	// ReasonNoIntent: nothing was ever recorded as deployed.
	ReasonNoIntent Reason = "NoIntent"
	// ReasonIntentOutranCheckpoint: the intent names an output that no
	// checkpoint holds. An older one never becomes eligible again.
	ReasonIntentOutranCheckpoint Reason = "IntentOutranCheckpoint"
	// ReasonIntentSuperseded: the intent changed between check and start.
	ReasonIntentSuperseded Reason = "IntentSuperseded"
)

// Reasons that concern what is stored.
const (
	// ReasonStoreUnreadable: pointers, checkpoints or files could not be read.
	ReasonStoreUnreadable Reason = "StoreUnreadable"
	// ReasonNoCheckpoint: no pointer exists.
	ReasonNoCheckpoint Reason = "NoCheckpoint"
	// ReasonPointerUntrusted: the object that holds the pointers is being
	// deleted or is not the template's.
	ReasonPointerUntrusted Reason = "PointerUntrusted"
	// ReasonSnapshotChanged: the pointers changed while what they name was read.
	ReasonSnapshotChanged Reason = "SnapshotChanged"
	// ReasonCheckpointDamaged: the intended checkpoint is not what its names and
	// checksums say.
	ReasonCheckpointDamaged Reason = "CheckpointDamaged"
	// ReasonCheckpointUnknown: the intended checkpoint cannot be judged.
	ReasonCheckpointUnknown Reason = "CheckpointUnknown"
	// ReasonCheckpointUnacknowledged: no receipt proves that a worker ran it.
	ReasonCheckpointUnacknowledged Reason = "CheckpointUnacknowledged"
)

// Reasons that concern a pod of the fleet.
const (
	// ReasonPodStarting: a pod that was discovered just now, or is being started,
	// does not answer yet. It is told in the health text only.
	ReasonPodStarting Reason = "PodStarting"
	// ReasonPodUnreachable: a pod does not answer, so what it runs is not known.
	ReasonPodUnreachable Reason = "PodUnreachable"
	// ReasonPodUnverified: a pod answered without having checked its files and
	// worker.
	ReasonPodUnverified Reason = "PodUnverified"
	// ReasonPodForeign: a pod belongs to another template.
	ReasonPodForeign Reason = "PodForeign"
	// ReasonPodViolating: a pod found one of its own invariants broken.
	ReasonPodViolating Reason = "PodViolating"
	// ReasonPodDisowned: an agent lost its state beside a worker that may serve.
	ReasonPodDisowned Reason = "PodDisowned"
	// ReasonPodWorkerUnknown: no worker of the pod's own proves what it runs.
	ReasonPodWorkerUnknown Reason = "PodWorkerUnknown"
	// ReasonPodContradictory: a pod's phase and its plans contradict each other.
	ReasonPodContradictory Reason = "PodContradictory"
	// ReasonPodPending: a pod has a reload to come.
	ReasonPodPending Reason = "PodPending"
	// ReasonPodOnAnotherPlan: a configured pod runs another output.
	ReasonPodOnAnotherPlan Reason = "PodOnAnotherPlan"
	// ReasonPodFilesDiffer: a configured pod's files are not the checkpoint's.
	ReasonPodFilesDiffer Reason = "PodFilesDiffer"
)

// Reasons that concern the check before dispatch, and the starts themselves.
const (
	// ReasonGateRefused: the current HAProxy binary refuses the checkpoint.
	ReasonGateRefused Reason = "GateRefused"
	// ReasonGateUnknown: the current HAProxy binary gave no verdict.
	ReasonGateUnknown Reason = "GateUnknown"
	// ReasonPodRejected: HAProxy on a bootstrap pod refused the checkpoint.
	ReasonPodRejected Reason = "PodRejected"
	// ReasonPodMoved: a bootstrap pod was none any more right before its start.
	ReasonPodMoved Reason = "PodMoved"
	// ReasonPodNotStarted: a start failed in another way, or its end is unknown.
	ReasonPodNotStarted Reason = "PodNotStarted"
	// ReasonEpochOutranked: a bootstrap pod has heard of a later epoch.
	ReasonEpochOutranked Reason = "EpochOutranked"
)

// Refusal is one reason with everything an operator needs. It never holds
// content, and nothing that changes from one attempt to the next by itself.
type Refusal struct {
	Reason Reason
	// Checksum is that of the checkpoint concerned, empty when there is none.
	Checksum string
	// Message names pod or object, what was expected and what was found.
	Message string
	// Do is what helps.
	Do string
	// Also names the other pods that refuse at the same time.
	Also []string
	// Quiet refusals are told in the health text only: they pass by themselves.
	Quiet bool
}

// Error lets a guard hand a refusal through a start.
func (f *Refusal) Error() string {
	text := string(f.Reason) + ": " + strings.TrimSuffix(f.Message, ".")
	if f.Do != "" {
		text += ". " + f.Do
	}
	return text
}
