package controller

import (
	"maps"
	"reflect"
	"sync"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// accounts remembers what was last handed over of each pod. Every drift round
// says of a fleet at rest what the one before said, and that must cost no write.
// Whether the published objects still show it is the publisher's own comparison.
type accounts struct {
	mu   sync.Mutex
	last map[string]v1alpha1.PodDeploymentStatus // by pod UID
}

// news reports that an account differs from the last one of its pod.
func (a *accounts) news(uid string, entry v1alpha1.PodDeploymentStatus) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, known := a.last[uid]; known && reflect.DeepEqual(last, entry) {
		return false
	}
	if a.last == nil {
		a.last = map[string]v1alpha1.PodDeploymentStatus{}
	}
	a.last[uid] = entry
	return true
}

// keep forgets the pods that are gone, as the publisher does. living are the
// UIDs of the others.
func (a *accounts) keep(living map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.last, func(uid string, _ v1alpha1.PodDeploymentStatus) bool { return !living[uid] })
}

func podStatus(r deploy.Report) v1alpha1.PodDeploymentStatus {
	status := record.PodStatus(r.Entry)
	status.ConsecutiveErrors = r.Failures
	return status
}
