package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

const checkFleet = "fleet"

// checkFleet compares what is stored of the pods with the intent. Only the pods
// themselves can tell for sure, and recovery asks each.
func (d *drill) checkFleet() {
	switch {
	case !d.intent.HasPlan():
		d.skip(checkFleet, "there is no intent to compare with")
		return
	case d.inv.unreadable[KindPod], !d.inv.live && d.sp.pods == nil:
		d.add(Check{Name: checkFleet, Result: NotKnown, Reason: string(d.unreadable()), Message: "the pods of the namespace were not read",
			Do: "Get the right to list pods, or give them with the export"})
		return
	}
	counted, excluded := d.pods()
	entries := d.entries()
	var disagreeing []Check
	for _, pod := range counted {
		entry, known := entries[string(pod.UID)]
		check := d.judgePod(pod, entry, known)
		switch {
		case check != nil:
			disagreeing = append(disagreeing, *check)
		case !known:
			d.report.Starts = append(d.report.Starts, pod.Name)
		}
	}
	if len(disagreeing) == 0 {
		message := fmt.Sprintf("of %d pods %d wait to be started, and the others were last seen on the intended plan", len(counted), len(d.report.Starts))
		if len(excluded) > 0 {
			var names []string
			for _, pod := range excluded {
				names = append(names, pod.name+" ("+pod.why+")")
			}
			message += "; not counted: " + strings.Join(names, ", ")
		}
		if d.inv.nodes == nil {
			message += "; nodes were not read, so that a dead one would not be seen"
		}
		d.add(Check{Name: checkFleet, Result: Passed, Message: message})
	}
	for _, check := range disagreeing {
		d.add(check)
	}
}

// excludedPod is one that recovery does not wait for.
type excludedPod struct{ name, why string }

// pods are those that the template selects, by name.
func (d *drill) pods() (counted []*corev1.Pod, excluded []excludedPod) {
	now := d.settings.Now
	if now.IsZero() {
		now = time.Unix(0, 0) // then no deletion is past its grace
	}
	selector := labels.SelectorFromSet(d.fact.selects)
	for _, pod := range slices.SortedFunc(slices.Values(d.sp.pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }) {
		if len(d.fact.selects) == 0 || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if why := selection.Exclusion(pod, now); why != "" {
			excluded = append(excluded, excludedPod{pod.Name, why})
			continue
		}
		counted = append(counted, pod)
	}
	return counted, excluded
}

// entries are the stored accounts by pod UID.
func (d *drill) entries() map[string]checkpoint.PodEntry {
	found := map[string]checkpoint.PodEntry{}
	if output := d.sp.outputs[checkpoint.OrdinaryName(d.fact.Name)]; output != nil {
		for _, entry := range output.Pods {
			found[entry.PodUID] = entry
		}
	}
	return found
}

// judgePod is why a pod would keep recovery from starting others, or nil.
func (d *drill) judgePod(pod *corev1.Pod, entry checkpoint.PodEntry, known bool) *Check {
	name := "pod " + pod.Name
	refused := func(reason selection.Reason, message, do string) *Check {
		return &Check{Name: name, Result: Refused, Reason: string(reason), Message: message, Do: do}
	}
	runs := cmp.Or(entry.WorkerOpsPlanID, entry.RunningPlanID)
	switch {
	case d.isOnDeadNode(pod):
		return refused(selection.ReasonPodUnreachable,
			fmt.Sprintf("it counts until it is deleted, and its node %s is not ready, so that it cannot say what it runs", pod.Spec.NodeName),
			fmt.Sprintf("If the node is dead: kubectl delete pod -n %s %s --force --grace-period=0", pod.Namespace, pod.Name))
	case !known && isReady(pod):
		return &Check{Name: name, Result: NotKnown, Reason: string(selection.ReasonPodUnverified),
			Message: "it is ready, and nothing is stored of what it runs", Do: "Recovery asks the pod itself; see its agent's log"}
	case !known:
		return nil
	case entry.Mode == "scheduled":
		return refused(selection.ReasonPodPending, "expected no pending reload, found one", "It passes when the reload is through")
	case entry.AppliedPlanID != "" && entry.AppliedPlanID != d.intent.PlanID, runs != "" && runs != d.intent.PlanID:
		return refused(selection.ReasonPodOnAnotherPlan,
			fmt.Sprintf("expected plan %q, found applied plan %q and running plan %q", d.intent.PlanID, entry.AppliedPlanID, runs),
			fmt.Sprintf("Fix rendering. Only if pod %s is known to be wrong, delete it", pod.Name))
	case entry.Confirms(d.intent.Checksum, d.intent.PlanID):
		return nil
	case entry.AppliedPlanID == "" && !isReady(pod):
		return nil // a pod whose first output failed still waits for one
	}
	return &Check{Name: name, Result: NotKnown, Reason: string(selection.ReasonPodUnverified),
		Message: fmt.Sprintf("what is stored of it proves nothing: mode %q, last error %q", entry.Mode, entry.LastError),
		Do:      "Recovery asks the pod itself; see its agent's log"}
}

// isOnDeadNode tells of a pod that was placed on a node which is not ready or
// not there. Without nodes nobody can tell.
func (d *drill) isOnDeadNode(pod *corev1.Pod) bool {
	if d.inv.nodes == nil || pod.Spec.NodeName == "" {
		return false
	}
	return !d.inv.nodes[pod.Spec.NodeName]
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
