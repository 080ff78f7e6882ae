package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
)

func TestPodsAreThoseThatMayBeRunning(t *testing.T) {
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "edge", UID: types.UID(name + "-uid"), Labels: map[string]string{"app": "proxy"}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.244.0.7"},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		counts bool
	}{
		{"a running pod", nil, true},
		{"a pending pod with an address", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, true},
		{"a pod within its deletion grace", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Minute)} }, true},
		{"a pod past its deletion grace", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Minute)} }, false},
		{"a pod without an address", func(p *corev1.Pod) { p.Status.PodIP = "" }, false},
		{"a pod that succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false},
		{"a pod that failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		{"a pod of another app", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }, false},
		{"a pod in another namespace", func(p *corev1.Pod) { p.Namespace = "web" }, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			kept, err := forgetMost(pod("a", tc.change))
			if err != nil {
				t.Fatal(err)
			}
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := indexer.Add(kept); err != nil {
				t.Fatal(err)
			}
			template := &v1alpha1.HAProxyTemplateConfig{}
			template.Spec.PodSelector.MatchLabels = map[string]string{"app": "proxy"}
			f := &fleet{
				pods: corelisters.NewPodLister(indexer).Pods("edge"), port: 9444,
				template: func() *v1alpha1.HAProxyTemplateConfig { return template },
			}
			want := []deploy.Pod{}
			if tc.counts {
				want = append(want, deploy.Pod{Name: "a", UID: "a-uid", Address: "10.244.0.7:9444"})
			}
			if diff := cmp.Diff(want, f.Pods()); diff != "" {
				t.Errorf("Pods() (-want +got):\n%s", diff)
			}
			template.Spec.PodSelector.MatchLabels = nil
			if got := f.Pods(); len(got) > 0 {
				t.Errorf("an empty selector selected %v", got)
			}
		})
	}
}

func TestIncarnationChangesWithARestart(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "haproxy"}, {Name: "agent"}}}}
	before := incarnation(pod)
	pod.Status.ContainerStatuses[0], pod.Status.ContainerStatuses[1] = pod.Status.ContainerStatuses[1], pod.Status.ContainerStatuses[0]
	if got := incarnation(pod); got != before {
		t.Errorf("another order made %q of %q", got, before)
	}
	pod.Status.ContainerStatuses[0].RestartCount++
	if got := incarnation(pod); got == before {
		t.Errorf("a restart left %q", got)
	}
}
