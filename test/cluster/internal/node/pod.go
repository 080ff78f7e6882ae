package node

import (
	"context"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/volumes"
)

const (
	volumeRetry   = 500 * time.Millisecond
	volumeRefresh = time.Second
	deleteRetry   = 200 * time.Millisecond
)

// pod owns one pod from first sight to the end of its last process.
//
// Two contexts tell the containers how to end: stop asks them to, kill means
// that no grace is left. gone says that the API object is not ours to touch.
type pod struct {
	*pods
	uid     types.UID
	key     cache.ObjectName
	created time.Time
	logger  klog.Logger

	stop, kill           context.Context
	askToStop, stopGrace context.CancelFunc
	// sidecarStop is cancelled after the main containers have ended.
	sidecarStop context.Context
	endSidecars context.CancelFunc
	gone        context.Context
	vanished    context.CancelFunc

	volumes *volumes.Set
	changed chan struct{}

	mu         sync.Mutex
	api        *corev1.Pod
	ip         netip.Addr
	started    metav1.Time
	containers []*container
	failure    string
	deadline   *time.Timer
	abandoned  bool
}

func newPod(ps *pods, object *corev1.Pod) *pod {
	p := &pod{
		pods:    ps,
		uid:     object.UID,
		key:     cache.MetaObjectToName(object),
		created: object.CreationTimestamp.Time,
		logger:  klog.FromContext(ps.ctx).WithValues("pod", klog.KObj(object), "uid", object.UID),
		api:     object,
		started: metav1.Now(),
		changed: make(chan struct{}, 1),
	}
	p.stop, p.askToStop = context.WithCancel(ps.ctx)
	p.kill, p.stopGrace = context.WithCancel(ps.ctx)
	p.sidecarStop, p.endSidecars = context.WithCancel(ps.ctx)
	p.gone, p.vanished = context.WithCancel(ps.ctx)
	p.volumes = &volumes.Set{
		Disk:    filepath.Join(p.folder(), "volumes"),
		Memory:  filepath.Join(p.scratch(), "volumes"),
		Sources: ps.sources,
	}
	p.containers = newContainers(p, object)
	return p
}

func (p *pod) folder() string  { return filepath.Join(p.dir.Pods(), string(p.uid)) }
func (p *pod) scratch() string { return filepath.Join(p.dir.Scratch(), "pods", string(p.uid)) }

// update takes note of a new form; of it, only labels, annotations, foreign
// conditions and the wish to end matter.
func (p *pod) update(object *corev1.Pod) {
	p.mu.Lock()
	if newer(object, p.api) {
		p.api = object
	}
	p.mu.Unlock()
	p.poke()
	if object.DeletionTimestamp != nil {
		grace := time.Duration(0)
		if object.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*object.DeletionGracePeriodSeconds) * time.Second
		}
		p.terminate(grace)
	}
}

// terminate asks the containers to end. A second call may shorten the grace,
// never lengthen it.
func (p *pod) terminate(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline == nil {
		p.deadline = time.AfterFunc(grace, p.stopGrace)
		p.askToStop()
		return
	}
	if grace == 0 {
		p.stopGrace()
	}
}

// vanish ends a pod that the API has dropped.
func (p *pod) vanish() {
	p.vanished()
	p.askToStop()
	p.stopGrace()
}

// abandon ends a pod because the cluster ends; the API is left alone.
func (p *pod) abandon(grace time.Duration) {
	p.mu.Lock()
	p.abandoned = true
	p.mu.Unlock()
	time.AfterFunc(grace, p.stopGrace)
	p.vanished()
	p.askToStop()
}

// poke wakes the reporter.
func (p *pod) poke() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// object answers the pod with its addresses, as containers see it.
func (p *pod) object() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	object := p.api.DeepCopy()
	object.Spec.NodeName = nodeName
	object.Status.HostIP = netns.NodeIP
	if p.ip.IsValid() {
		object.Status.PodIP = p.ip.String()
		object.Status.PodIPs = []corev1.PodIP{{IP: p.ip.String()}}
	}
	return object
}

// run is the whole life of a pod.
func (p *pod) run() {
	defer p.forget(p)
	reporting, endReports := context.WithCancel(p.gone)
	var background sync.WaitGroup
	background.Go(func() { p.report(reporting) })
	p.live(&background)
	endReports()
	background.Wait()
	p.remove()
}

// live runs the containers and returns when all have ended and the pod is to go.
func (p *pod) live(background *sync.WaitGroup) {
	object := p.object()
	p.sources.register(object)
	defer p.sources.unregister(object)
	if !p.prepare() {
		return
	}
	refreshing, endRefresh := context.WithCancel(p.ctx)
	defer endRefresh()
	background.Go(func() { p.refresh(refreshing) })
	p.runContainers()
	p.poke()
	// A pod that has completed stays until somebody deletes it.
	<-p.stop.Done()
}

// prepare gives the pod an address and its volumes; false when it was stopped
// before that succeeded.
func (p *pod) prepare() bool {
	if p.stop.Err() != nil {
		return false
	}
	address, err := p.addresses.take()
	if err != nil {
		p.event(corev1.EventTypeWarning, "FailedCreatePodSandBox", err.Error())
		<-p.stop.Done()
		return false
	}
	p.mu.Lock()
	p.ip = address
	p.mu.Unlock()
	p.poke()
	for last := ""; ; {
		err := p.volumes.Fill(p.object())
		if err == nil {
			p.setFailure("")
			return true
		}
		// One event for each new reason: the retries are frequent.
		if err.Error() != last {
			last = err.Error()
			p.setFailure(last)
			p.event(corev1.EventTypeWarning, "FailedMount", last)
		}
		select {
		case <-p.stop.Done():
			return false
		case <-time.After(volumeRetry):
		}
	}
}

func (p *pod) setFailure(message string) {
	p.mu.Lock()
	p.failure = message
	p.mu.Unlock()
	p.poke()
}

// refresh keeps volumes from the API current.
func (p *pod) refresh(ctx context.Context) {
	ticks := time.NewTicker(volumeRefresh)
	defer ticks.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		err := p.volumes.Fill(p.object())
		if err == nil {
			last = ""
			continue
		}
		if err.Error() != last {
			last = err.Error()
			p.event(corev1.EventTypeWarning, "FailedMount", last)
		}
	}
}

// remove deletes what is left: the API object first, so that whoever waits for
// it sees it go only after the processes.
func (p *pod) remove() {
	p.finalReport()
	p.deleteObject()
	p.mu.Lock()
	address, timer := p.ip, p.deadline
	p.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if err := p.volumes.Remove(p.object()); err != nil {
		p.logger.Error(err, "Deleting volumes failed")
	}
	p.removeFolders()
	if address.IsValid() {
		p.addresses.release(address)
	}
	p.vanished()
	p.stopGrace()
	p.endSidecars()
}

func (p *pod) deleteObject() {
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(p.uid))
	for p.gone.Err() == nil {
		// Not with the context gone: our own deletion ends that one, often
		// before the answer is here.
		err := p.client.CoreV1().Pods(p.key.Namespace).Delete(p.ctx, p.key.Name, options)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || p.gone.Err() != nil {
			return
		}
		p.logger.Error(err, "Deleting an ended pod failed, will retry")
		select {
		case <-p.gone.Done():
		case <-time.After(deleteRetry):
		}
	}
}
