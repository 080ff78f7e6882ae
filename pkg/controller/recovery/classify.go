package recovery

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

// startGrace is how long a pod that was just discovered may fail to answer
// before that is told. Its containers start one after another.
const startGrace = 10 * time.Second

// Sighting is one pod and what it said of itself.
type Sighting struct {
	Pod Pod
	// State is nil when the pod did not answer, and Err is why.
	State *api.State
	Err   error
	// Age is how long the pod has been discovered in this term.
	Age time.Duration
	// Starting says that the pod is being given the checkpoint right now.
	Starting bool
}

// isBootstrap tells whether the pod may be started from a checkpoint.
func (s Sighting) isBootstrap(templateUID string) bool {
	return s.State != nil && s.State.Verified && s.State.IsBootstrap() &&
		(s.State.TemplateUID == "" || s.State.TemplateUID == templateUID)
}

// doubt is nil when the pod either is a bootstrap pod or a configured one whose
// account can be compared; else it is why recovery must not go on.
func (s Sighting) doubt(templateUID string) *selection.Refusal {
	name := "pod " + s.Pod.Name
	if s.State == nil {
		var refused *client.ConflictError
		if errors.As(s.Err, &refused) && refused.Conflict.Reason == api.ReasonWrongTemplate {
			return s.foreign(templateUID, refused.Conflict.TemplateUID)
		}
		return s.silence()
	}
	st := s.State
	switch {
	case st.TemplateUID != "" && st.TemplateUID != templateUID:
		return s.foreign(templateUID, st.TemplateUID)
	case !st.Verified:
		return &selection.Refusal{Reason: selection.ReasonPodUnverified,
			Message: name + ": expected a state verified against files and worker, found one that is not",
			Do:      "Look at the agent's log"}
	case st.InvariantViolation != "":
		return &selection.Refusal{Reason: selection.ReasonPodViolating,
			Message: fmt.Sprintf("%s: expected no invariant violation, found %q", name, brief(st.InvariantViolation)),
			Do:      fmt.Sprintf("Delete %s once the other pods carry its load", name)}
	case st.Phase == api.PhaseDisowned:
		return &selection.Refusal{Reason: selection.ReasonPodDisowned,
			Message: fmt.Sprintf("%s: phase: expected %q or %q, found %q, so that what its worker serves is not known",
				name, api.PhaseBootstrap, api.PhaseConfigured, st.Phase),
			Do: fmt.Sprintf("Fix rendering, or delete %s once the other pods carry its load", name)}
	case st.ReloadPendingAt != nil:
		return &selection.Refusal{Reason: selection.ReasonPodPending, Message: name + ": expected no pending reload, found one",
			Do: "It passes when the reload is through"}
	case st.WorkerStatus != api.WorkerOwned || !st.HAProxy.HasWorker():
		return &selection.Refusal{Reason: selection.ReasonPodWorkerUnknown,
			Message: fmt.Sprintf("%s: worker: expected %q with an identity, found %q", name, api.WorkerOwned, st.WorkerStatus),
			Do:      fmt.Sprintf("See why HAProxy does not run in %s, or delete it", name),
			Quiet:   s.Age < startGrace}
	case st.Phase == api.PhaseConfigured && st.AppliedPlanID != "", st.IsBootstrap():
		return nil
	}
	return &selection.Refusal{Reason: selection.ReasonPodContradictory,
		Message: fmt.Sprintf("%s: phase %q goes with no or one plan, found applied plan %q, running plan %q, token %d/%d",
			name, st.Phase, st.AppliedPlanID, st.RunningPlanID, st.AppliedToken.LeaderEpoch, st.AppliedToken.RenderSeq),
		Do: fmt.Sprintf("Delete %s once the other pods carry its load", name)}
}

// foreign is the refusal for a pod of another template. Its agent does not even
// tell its state to this one's controller.
func (s Sighting) foreign(expected, found string) *selection.Refusal {
	return &selection.Refusal{Reason: selection.ReasonPodForeign,
		Message: fmt.Sprintf("pod %s: template UID: expected %q, found %q", s.Pod.Name, expected, found),
		Do:      "Delete the pod, or make the selector of one template leave it out"}
}

// silence is the refusal for a pod that does not answer.
func (s Sighting) silence() *selection.Refusal {
	f := &selection.Refusal{Reason: selection.ReasonPodUnreachable,
		Message: fmt.Sprintf("pod %s at %s: expected its state, found %s", s.Pod.Name, s.Pod.Address, describe(s.Err)),
		Do: fmt.Sprintf("If its node is dead, delete it: kubectl delete pod %s --force --grace-period=0; else look at its agent's log",
			s.Pod.Name)}
	switch {
	case s.Starting:
		// Its agent answers when the apply is through. Advice to delete it would
		// undo the recovery.
		f.Reason, f.Do = selection.ReasonPodStarting, "It is being started from the checkpoint"
	case s.Age < startGrace:
		f.Reason, f.Quiet, f.Do = selection.ReasonPodStarting, true, "It passes when the pod's agent has started"
	}
	return f
}

// describe tells an error without what differs from one try to the next, such
// as the local port of a connection.
func describe(err error) string {
	var refused *client.RefusedError
	var operation *net.OpError
	var timeout net.Error
	switch {
	case err == nil:
		return "no answer"
	case errors.As(err, &refused):
		return fmt.Sprintf("status %d at stage %q: %s", refused.Status, refused.Detail.Stage, brief(refused.Detail.Message))
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &operation):
		return brief(operation.Op + ": " + operation.Err.Error())
	}
	return brief(innermost(err).Error())
}

// innermost is the cause at the end of the chain, where the values that callers
// added on the way are gone.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// brief bounds what somebody else's text may take of a message.
func brief(text string) string { return cut(text, 200) }
