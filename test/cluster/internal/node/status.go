package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
)

// snapshot is everything a status is computed from.
type snapshot struct {
	pod     *corev1.Pod
	ip      string
	started metav1.Time
	failure string
	// containers in the order of the specification.
	containers []containerView
	now        metav1.Time
}

type containerView struct {
	role   role
	status corev1.ContainerStatus
}

// compute answers the pod's status: old with our part of it renewed. Conditions
// of others stay, and a transition time changes only with the value.
func compute(s snapshot, old corev1.PodStatus) corev1.PodStatus {
	status := *old.DeepCopy()
	status.ObservedGeneration = s.pod.Generation
	status.HostIP = netns.NodeIP
	status.HostIPs = []corev1.HostIP{{IP: netns.NodeIP}}
	status.StartTime = &s.started
	if s.ip != "" {
		status.PodIP = s.ip
		status.PodIPs = []corev1.PodIP{{IP: s.ip}}
	}
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, view := range s.containers {
		if view.role == roleMain {
			status.ContainerStatuses = append(status.ContainerStatuses, view.status)
		} else {
			status.InitContainerStatuses = append(status.InitContainerStatuses, view.status)
		}
	}
	status.Phase = phase(s)
	status.Message = s.failure
	for _, condition := range conditions(s, status) {
		setCondition(&status, condition, s.now)
	}
	return status
}

// phase follows the rules of the kubelet.
func phase(s snapshot) corev1.PodPhase {
	if done, failed := initialized(s); failed {
		return corev1.PodFailed
	} else if !done {
		return corev1.PodPending
	}
	waiting, running, stopped, succeeded := 0, 0, 0, 0
	for _, view := range s.containers {
		if view.role != roleMain {
			continue
		}
		switch state := view.status.State; {
		case state.Running != nil:
			running++
		case state.Terminated != nil:
			stopped++
			if state.Terminated.ExitCode == 0 {
				succeeded++
			}
		case view.status.LastTerminationState.Terminated != nil:
			stopped++ // waiting for a restart
		default:
			waiting++
		}
	}
	ending := s.pod.DeletionTimestamp != nil
	switch {
	case waiting > 0:
		return corev1.PodPending
	case running > 0:
		return corev1.PodRunning
	case s.pod.Spec.RestartPolicy == corev1.RestartPolicyAlways && !ending:
		return corev1.PodRunning
	case stopped == succeeded:
		return corev1.PodSucceeded
	case s.pod.Spec.RestartPolicy == corev1.RestartPolicyNever || ending:
		return corev1.PodFailed
	}
	return corev1.PodRunning
}

// initialized says whether all init containers are through, and whether one
// has failed for good.
func initialized(s snapshot) (done, failed bool) {
	done = true
	for _, view := range s.containers {
		state := view.status.State
		switch view.role {
		case roleInit:
			if state.Terminated == nil {
				done = false
				continue
			}
			if state.Terminated.ExitCode != 0 {
				done = false
				failed = failed || s.pod.Spec.RestartPolicy == corev1.RestartPolicyNever
			}
		case roleSidecar:
			if view.status.Started == nil || !*view.status.Started {
				// One that has been up before only restarts.
				done = done && (view.status.RestartCount > 0 || state.Terminated != nil)
			}
		}
	}
	return done, failed
}

func conditions(s snapshot, status corev1.PodStatus) []corev1.PodCondition {
	condition := func(kind corev1.PodConditionType, ok bool, reason string) corev1.PodCondition {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, ObservedGeneration: s.pod.Generation}
		if !ok {
			c.Status, c.Reason = corev1.ConditionFalse, reason
		}
		return c
	}
	done, _ := initialized(s)
	containersReady := done && status.Phase == corev1.PodRunning
	for _, view := range s.containers {
		if view.role != roleInit && !view.status.Ready {
			containersReady = false
		}
	}
	why := "ContainersNotReady"
	if status.Phase == corev1.PodSucceeded {
		why = "PodCompleted"
	} else if status.Phase == corev1.PodFailed {
		why = "PodFailed"
	}
	ready := condition(corev1.PodReady, containersReady, why)
	if containersReady && !gatesOpen(s.pod, status) {
		ready = condition(corev1.PodReady, false, "ReadinessGatesNotReady")
	}
	return []corev1.PodCondition{
		condition(corev1.PodScheduled, true, ""),
		condition(corev1.PodReadyToStartContainers, s.ip != "" && s.failure == "", ""),
		condition(corev1.PodInitialized, done, "ContainersNotInitialized"),
		condition(corev1.ContainersReady, containersReady, why),
		ready,
	}
}

func gatesOpen(pod *corev1.Pod, status corev1.PodStatus) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !open {
			return false
		}
	}
	return true
}

func setCondition(status *corev1.PodStatus, condition corev1.PodCondition, now metav1.Time) {
	for i := range status.Conditions {
		old := &status.Conditions[i]
		if old.Type != condition.Type {
			continue
		}
		condition.LastTransitionTime = old.LastTransitionTime
		if old.Status != condition.Status {
			condition.LastTransitionTime = now
		}
		*old = condition
		return
	}
	condition.LastTransitionTime = now
	status.Conditions = append(status.Conditions, condition)
}
