package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Deployments and the label that their pods carry.
const (
	proxyDeployment      = "proxy"
	controllerDeployment = "holdfast-controller"
	proxyName            = "holdfast-proxy"
	controllerName       = "holdfast-controller"
)

// podWatch follows the pods of a namespace and remembers when each became Ready
// first, more exactly than the API's seconds.
type podWatch struct {
	lister corelisters.PodNamespaceLister

	mu            sync.Mutex
	seen, readied map[types.UID]time.Time
}

func watchPods(t *testing.T, core kubernetes.Interface, namespace string) *podWatch {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(core, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods()
	w := &podWatch{
		lister: informer.Lister().Pods(namespace),
		seen:   map[types.UID]time.Time{}, readied: map[types.UID]time.Time{},
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.note,
		UpdateFunc: func(_, now any) { w.note(now) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	return w
}

func (w *podWatch) note(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.seen[pod.UID]; !known {
		w.seen[pod.UID] = time.Now()
	}
	if _, known := w.readied[pod.UID]; !known && isReady(pod) {
		w.readied[pod.UID] = time.Now()
	}
}

// times are when the pod was created and when it became Ready first.
func (w *podWatch) times(uid types.UID) (created, ready time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[uid], w.readied[uid]
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// named are all pods of that name label, ending ones included, by name.
func (w *podWatch) named(name string) []*corev1.Pod {
	found, err := w.lister.List(labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": name}))
	if err != nil {
		return nil // a store in memory does not fail to list
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// living are the pods that are not being deleted.
func (w *podWatch) living(name string) []*corev1.Pod {
	return slices.DeleteFunc(w.named(name), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// added are the living pods that were not there before.
func (w *podWatch) added(name string, before []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(w.living(name), func(p *corev1.Pod) bool {
		return slices.ContainsFunc(before, func(b *corev1.Pod) bool { return b.UID == p.UID })
	})
}

func (w *podWatch) allReady(name string, want int) error {
	ready := 0
	pods := w.named(name)
	for _, pod := range pods {
		if isReady(pod) {
			ready++
		}
	}
	if len(pods) != want || ready != want {
		return fmt.Errorf("%d of %d pods are ready, want %d", ready, len(pods), want)
	}
	return nil
}

func (s *stage) scale(deployment string, replicas int32) {
	s.t.Helper()
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: deployment, Namespace: s.namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	if _, err := s.core.AppsV1().Deployments(s.namespace).UpdateScale(s.t.Context(), deployment, scale, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// stopAll scales to nothing and waits for the pods to be gone.
func (s *stage) stopAll(deployment, name string) {
	s.t.Helper()
	s.scale(deployment, 0)
	s.await("no "+deployment+" is left", func(context.Context) error { return s.pods.allReady(name, 0) })
}

// deletePod deletes with the pod's own grace period, or with the given one.
func (s *stage) deletePod(pod *corev1.Pod, grace *int64) {
	s.t.Helper()
	err := s.core.CoreV1().Pods(s.namespace).Delete(s.t.Context(), pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
