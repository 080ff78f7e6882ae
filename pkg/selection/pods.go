package selection

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Exclusion says why a pod does not count, or nothing: a pod counts that has an
// address, has not ended, and is not past its deletion grace. A pod on a dead
// node still does.
func Exclusion(pod *corev1.Pod, now time.Time) string {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return "it has ended with phase " + string(pod.Status.Phase)
	case pod.Status.PodIP == "":
		return "it has no address"
	case pod.DeletionTimestamp != nil && !now.Before(pod.DeletionTimestamp.Time):
		// The time stamp already contains the grace period.
		return "it is past its deletion grace period"
	}
	return ""
}
