package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	podpatch "k8s.io/kubernetes/pkg/util/pod"
)

const reportRetry = 100 * time.Millisecond

// report sends the status whenever something changed, at once and one request
// at a time. Nothing is batched: readiness must be seen within milliseconds.
func (p *pod) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		if !p.send(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reportRetry):
				p.poke()
			}
		}
	}
}

// finalReport sends how everything ended, before the object goes.
func (p *pod) finalReport() {
	if p.gone.Err() == nil {
		_ = p.send(p.gone)
	}
}

// send patches the status and answers false when it should be tried again. The
// patch names the UID, so that it never lands on a successor.
func (p *pod) send(ctx context.Context) bool {
	view := p.snapshot()
	old := view.pod.Status
	next := compute(view, old)
	if equality.Semantic.DeepEqual(old, next) {
		return true
	}
	updated, _, unchanged, err := podpatch.PatchPodStatus(ctx, p.client, p.key.Namespace, p.key.Name, p.uid, old, next)
	switch {
	case err != nil:
		return p.refused(ctx, err)
	case unchanged:
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The watch may be ahead of us or behind; the next patch is made against
	// the newer of the two.
	if newer(updated, p.api) {
		p.api = updated
	}
	return true
}

// refused asks the API whether the pod is still there: the library answers an
// error that has lost its kind.
func (p *pod) refused(ctx context.Context, cause error) bool {
	current, err := p.client.CoreV1().Pods(p.key.Namespace).Get(ctx, p.key.Name, metav1.GetOptions{})
	switch {
	case ctx.Err() != nil:
		return true
	case apierrors.IsNotFound(err), err == nil && current.UID != p.uid:
		p.vanish()
		return true
	case err == nil:
		p.mu.Lock()
		if newer(current, p.api) {
			p.api = current
		}
		p.mu.Unlock()
	}
	p.logger.Error(cause, "Reporting a pod's status failed, will retry")
	return false
}

func (p *pod) snapshot() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := snapshot{pod: p.api.DeepCopy(), started: p.started, failure: p.failure, now: metav1.Now()}
	if p.ip.IsValid() {
		s.ip = p.ip.String()
	}
	for _, c := range p.containers {
		s.containers = append(s.containers, containerView{role: c.role, status: c.status()})
	}
	return s
}

// status is called with the pod's mutex held.
func (c *container) status() corev1.ContainerStatus {
	started := c.started
	status := corev1.ContainerStatus{
		Name:                 c.spec.Name,
		Image:                c.spec.Image,
		ImageID:              c.spec.Image,
		RestartCount:         c.restarts,
		Ready:                c.ready,
		Started:              &started,
		State:                *c.state.DeepCopy(),
		LastTerminationState: *c.last.DeepCopy(),
	}
	if c.id != "" {
		status.ContainerID = containerID(c.id)
	}
	// An init container is ready when it is through.
	if c.role == roleInit && c.state.Terminated != nil {
		status.Ready = c.state.Terminated.ExitCode == 0
	}
	return status
}

// newer compares two forms of one object; the later resourceVersion wins.
func newer(a, b *corev1.Pod) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err != nil || order >= 0
}

func (p *pod) event(kind, reason, message string) {
	p.mu.Lock()
	object, abandoned := p.api, p.abandoned
	p.mu.Unlock()
	if !abandoned {
		p.events.Event(object, kind, reason, message)
	}
}
