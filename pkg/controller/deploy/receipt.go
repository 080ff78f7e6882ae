package deploy

import (
	"fmt"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// maxErrorBytes bounds the text of a pod's last error, which is stored once per
// pod in one object.
const maxErrorBytes = 512

// Report is what became of one pod in one deployment.
type Report struct {
	Pod    Pod
	Output *checkpoint.Output
	// Sequence is the candidate's.
	Sequence uint64
	// Entry is the pod's account. After a failure it is the last good one with
	// the error, so that it never claims what was not delivered.
	Entry checkpoint.PodEntry
	// Failures counts failed attempts since the last success.
	Failures int
	// Receipt says that Entry proves a worker running the output.
	Receipt bool
	// Rejected says that HAProxy on the pod refused the output.
	Rejected bool
	// Scheduled says that the pod took the output and will load it later; another
	// report follows.
	Scheduled bool
}

// runtimeID tells runs of the proxy's worker apart, as the agent saw it. It is
// first-hand, where a container's ID in the pod's status lags behind.
func runtimeID(h api.HAProxy) string {
	if !h.HasWorker() {
		return ""
	}
	return fmt.Sprintf("%d-%d", h.WorkerStartTimeUnixMicros, h.WorkerPID)
}

// account is what an agent said about itself, in a state or in a result.
type account struct {
	api.Plans
	haproxy api.HAProxy
	mode    api.Outcome
}

func entryOf(pod Pod, checksum string, a account) checkpoint.PodEntry {
	return checkpoint.PodEntry{
		PodName: pod.Name, PodUID: pod.UID, PodRuntimeID: runtimeID(a.haproxy),
		Checksum:      checksum,
		AppliedPlanID: a.AppliedPlanID, RunningPlanID: a.RunningPlanID, WorkerOpsPlanID: a.WorkerOpsPlanID,
		Mode: string(a.mode),
	}
}

// failedEntry keeps what the pod last proved, and adds the error.
func failedEntry(pod Pod, lastGood *checkpoint.PodEntry, mode api.Outcome, message string) checkpoint.PodEntry {
	entry := checkpoint.PodEntry{PodName: pod.Name, PodUID: pod.UID}
	if lastGood != nil {
		entry = *lastGood
	} else {
		entry.Mode = string(mode)
	}
	entry.LastError = cut(message)
	return entry
}

func cut(message string) string {
	message = strings.ToValidUTF8(message, "?")
	if len(message) <= maxErrorBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxErrorBytes-len("…")], "") + "…"
}
