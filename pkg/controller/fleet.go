package controller

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/recovery"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

// fleet discovers proxy pods.
type fleet struct {
	pods     corelisters.PodNamespaceLister
	template func() *v1alpha1.HAProxyTemplateConfig
	port     int
}

// Pods are those that the template selects and that may be running.
func (f *fleet) Pods() []deploy.Pod {
	counted, _ := f.survey()
	return counted
}

// survey tells the selected pods that count from those that do not.
func (f *fleet) survey() (counted []deploy.Pod, excluded []recovery.Excluded) {
	now := time.Now()
	found := f.selected()
	counted = make([]deploy.Pod, 0, len(found))
	for _, pod := range found {
		if why := selection.Exclusion(pod, now); why != "" {
			excluded = append(excluded, recovery.Excluded{Name: pod.Name, Why: why})
			continue
		}
		counted = append(counted, deploy.Pod{
			Name: pod.Name, UID: string(pod.UID),
			Address:     net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(f.port)),
			Incarnation: incarnation(pod),
		})
	}
	return counted, excluded
}

// selected are the pods that the template selects, in order of their names.
func (f *fleet) selected() []*corev1.Pod {
	template := f.template()
	if template == nil || len(template.Spec.PodSelector.MatchLabels) == 0 {
		// An empty selector would match every pod of the namespace.
		return nil
	}
	found, err := f.pods.List(labels.SelectorFromSet(template.Spec.PodSelector.MatchLabels))
	if err != nil {
		return nil // a store in memory does not fail to list
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// incarnation changes when a container of the pod was started anew.
func incarnation(pod *corev1.Pod) string {
	var parts []string
	for _, c := range pod.Status.ContainerStatuses {
		parts = append(parts, fmt.Sprintf("%s/%d/%s", c.Name, c.RestartCount, c.ContainerID))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// forgetMost keeps of a pod what discovery needs.
func forgetMost(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP},
	}
	for _, c := range pod.Status.ContainerStatuses {
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: c.Name, RestartCount: c.RestartCount, ContainerID: c.ContainerID})
	}
	return kept, nil
}
