package node

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/test/cluster/internal/probes"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

type podsConfig struct {
	client kubernetes.Interface
	dir    state.Dir
	binDir string
}

// pods is every pod of the node, known by UID: a pod and its successor of the
// same name live side by side for a while.
type pods struct {
	podsConfig
	ctx       context.Context
	addresses *addresses
	sources   *sources
	prober    *probes.Prober
	events    record.EventRecorder

	mu      sync.Mutex
	byUID   map[types.UID]*pod
	closing bool
	running sync.WaitGroup
}

func newPods(ctx context.Context, config podsConfig) *pods {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: config.client.CoreV1().Events("")})
	return &pods{
		podsConfig: config,
		ctx:        ctx,
		addresses:  newAddresses(),
		sources:    newSources(config.client),
		prober:     probes.NewProber(),
		events:     broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "devcluster-node", Host: nodeName}),
		byUID:      map[types.UID]*pod{},
	}
}

// sync takes note of a pod's present form and starts its owner at first sight.
func (ps *pods) sync(object *corev1.Pod) {
	ps.mu.Lock()
	p, known := ps.byUID[object.UID]
	if !known && !ps.closing {
		finished := object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed
		if finished && object.DeletionTimestamp == nil {
			ps.mu.Unlock()
			return
		}
		p = newPod(ps, object)
		ps.byUID[object.UID] = p
		ps.running.Go(p.run)
	}
	ps.mu.Unlock()
	if p != nil {
		p.update(object)
	}
}

// gone is called when the API has no such pod any more: no grace is left.
func (ps *pods) gone(object *corev1.Pod) {
	ps.mu.Lock()
	p := ps.byUID[object.UID]
	ps.mu.Unlock()
	if p != nil {
		p.vanish()
	}
}

func (ps *pods) forget(p *pod) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.byUID, p.uid)
}

// find answers the pod that the API means by a name: the newest.
func (ps *pods) find(namespace, name string) *pod {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var newest *pod
	for _, p := range ps.byUID {
		if p.key != (cache.ObjectName{Namespace: namespace, Name: name}) {
			continue
		}
		if newest == nil || p.created.After(newest.created) {
			newest = p
		}
	}
	return newest
}

func (ps *pods) all() []*pod {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	list := make([]*pod, 0, len(ps.byUID))
	for _, p := range ps.byUID {
		list = append(list, p)
	}
	return list
}

// shutDown ends every pod and waits for it.
func (ps *pods) shutDown(grace time.Duration) {
	ps.mu.Lock()
	ps.closing = true
	ps.mu.Unlock()
	for _, p := range ps.all() {
		p.abandon(grace)
	}
	ps.running.Wait()
	klog.FromContext(ps.ctx).Info("Ended every pod")
}
