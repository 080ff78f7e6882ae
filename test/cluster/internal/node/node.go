package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/pki"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

const (
	nodeName      = "devnode"
	kubeletPort   = 10250
	leaseSeconds  = 40
	startTime     = 2 * time.Minute
	retryInterval = 100 * time.Millisecond
	registerRetry = time.Second
	// shutdownGrace is what pods get when the whole cluster ends.
	shutdownGrace = 2 * time.Second
)

// Run registers the node and runs pods until the context ends, then ends them.
func Run(ctx context.Context, dir state.Dir) error {
	info, err := dir.Read()
	if err != nil {
		return err
	}
	files := pki.In(dir.Path("pki"))
	client, err := newClient(files.Node)
	if err != nil {
		return err
	}
	scheduler, err := newClient(files.Scheduler)
	if err != nil {
		return err
	}
	if err := waitForAPI(ctx, client); err != nil {
		return err
	}
	// Pods must be ended after the context has: their goroutines get another.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	pods := newPods(lasting, podsConfig{client: client, dir: dir, binDir: info.BinDir})
	parts := []func(context.Context) error{
		func(ctx context.Context) error { return runNode(ctx, client) },
		func(ctx context.Context) error { return serveKubelet(ctx, client, files, pods) },
		func(ctx context.Context) error { return runScheduler(ctx, scheduler) },
		func(ctx context.Context) error { return watchPods(ctx, client, pods) },
	}
	err = runAll(ctx, parts)
	pods.shutDown(shutdownGrace)
	return err
}

// runAll runs parts until one fails or the context ends, and waits for all.
func runAll(ctx context.Context, parts []func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, len(parts))
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() {
			defer cancel()
			failures <- part(ctx)
		})
	}
	running.Wait()
	close(failures)
	var all []error
	for err := range failures {
		if err != nil && !errors.Is(err, context.Canceled) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	// A status that waits in a client-side queue is a readiness that comes late.
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	return client, nil
}

func waitForAPI(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for kube-apiserver: %w (last answer: %w)", ctx.Err(), err)
		case <-time.After(retryInterval):
		}
	}
}

// runNode registers the node and keeps its lease and status fresh. A refused
// registration is tried again: the API may be slow on a busy machine, and the
// cluster's start waits for the node with a limit of its own.
func runNode(ctx context.Context, client kubernetes.Interface) error {
	for {
		err := registerNode(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, "Registering the node failed, will retry")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(registerRetry):
		}
	}
}

func registerNode(ctx context.Context, client kubernetes.Interface) error {
	controller, err := vknode.NewNodeController(vknode.NaiveNodeProvider{}, description(), client.CoreV1().Nodes(),
		vknode.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds))
	if err != nil {
		return fmt.Errorf("preparing node registration: %w", err)
	}
	return controller.Run(ctx)
}

// description claims more than any test asks for; nothing is enforced.
func description() *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		now := metav1.Now()
		return corev1.NodeCondition{Type: kind, Status: status, Reason: "DevClusterNode", LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
			corev1.LabelHostname:   nodeName,
			corev1.LabelOSStable:   runtime.GOOS,
			corev1.LabelArchStable: runtime.GOARCH,
		}},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning,
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: netns.NodeIP},
				{Type: corev1.NodeHostName, Address: nodeName},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
				KubeletVersion: "v1.37.2-devcluster", ContainerRuntimeVersion: "process://1",
			},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse),
			},
		},
	}
}

// watchPods feeds the node's pods into their owners until the context ends.
func watchPods(ctx context.Context, client kubernetes.Interface, pods *pods) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	}))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { pods.sync(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { pods.sync(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			pods.gone(object.(*corev1.Pod))
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	klog.FromContext(ctx).Info("Started watching pods", "node", nodeName)
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}
