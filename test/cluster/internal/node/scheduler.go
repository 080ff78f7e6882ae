package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// runScheduler binds every pod without a node to the only one. Node selectors,
// affinity and taints are not looked at; scheduling gates are.
func runScheduler(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", "").String()
	}))
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	enqueue := func(object any) {
		pod := object.(*corev1.Pod)
		if pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
			queue.Add(cache.MetaObjectToName(pod))
		}
	}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	if err != nil {
		return fmt.Errorf("watching unscheduled pods: %w", err)
	}
	factory.Start(ctx.Done())
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for {
		key, shutdown := queue.Get()
		if shutdown {
			factory.Shutdown()
			return nil
		}
		pod, err := pods.Lister().Pods(key.Namespace).Get(key.Name)
		if err == nil {
			err = bind(ctx, client, pod)
		}
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Binding a pod failed, will retry", "pod", key)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func bind(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
	if apierrors.IsConflict(err) {
		return nil // bound already, or replaced by another of the same name
	}
	return err
}
