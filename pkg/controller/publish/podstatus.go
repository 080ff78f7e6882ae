package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const (
	// managerPrefix starts the field manager under which a pod's entries are
	// applied, one a pod, so that each can be changed and removed alone.
	managerPrefix = "haptic-pod-status-"
	// maxManagerLength is the API server's limit.
	maxManagerLength = 128
	// maxAppliesPerStep bounds the entries written in one go: a large fleet must
	// not keep a publication waiting.
	maxAppliesPerStep = 64
)

var (
	// errStepFull says that there are more entries than one step writes.
	errStepFull = errors.New("more entries than one step writes")
	// errAnew says that an object is gone, or another one under the same name.
	errAnew = errors.New("object is gone or was created anew")
)

// runStatuses applies entries, removes those of gone pods, and holds what was
// applied against live objects in drift rounds. A failure leaves it due. It
// goes on while rendering is blocked: pods come and go then too.
func (p *Publisher) runStatuses(ctx context.Context) time.Duration {
	p.mu.Lock()
	entries, living, fleet := p.entries, p.living, p.fleet
	p.entries = map[string]v1alpha1.PodDeploymentStatus{}
	p.mu.Unlock()
	p.statuses.take(entries)
	if living != nil {
		p.statuses.keep(living)
	}
	if wait := time.Until(p.status.next); wait > 0 {
		return wait
	}
	var err error
	if fleet != p.sweptFleet || len(p.statuses.applied) > 0 && time.Since(p.statuses.compared) >= verifyInterval {
		if err = p.sweep(ctx, living); err == nil {
			p.sweptFleet = fleet
		}
	}
	if err == nil {
		err = p.applyEntries(ctx)
	}
	switch {
	case errors.Is(err, errNoOrdinary):
		return verifyInterval // its publication makes the entries due again
	case errors.Is(err, errStepFull):
		p.status.settle(time.Now(), nil, 0)
		return 0
	case err != nil:
		p.status.settle(time.Now(), err, 0)
		p.tell(ctx, whatStatus, false, err)
		return time.Until(p.status.next)
	}
	p.status.settle(time.Now(), nil, 0)
	if len(p.statuses.applied) > 0 {
		return verifyInterval - time.Since(p.statuses.compared)
	}
	return verifyInterval
}

// applyEntries writes the entries that are due, at most as many as one step may.
func (p *Publisher) applyEntries(ctx context.Context) error {
	s := p.statuses
	own, onFiles := s.due(s.todo), s.due(s.todoFiles)
	p.metrics.HiddenPods.Set(float64(len(s.entries) - len(s.shown())))
	if len(own) == 0 && len(onFiles) == 0 {
		return nil
	}
	if s.cfg == nil {
		ordinary, err := p.readOrdinary(ctx)
		if err != nil {
			return err
		}
		s.cfg = ordinary
	}
	room := maxAppliesPerStep
	for _, pod := range own {
		if err := p.applyOwn(ctx, pod, &room); err != nil {
			return err
		}
		delete(s.todo, pod)
	}
	for _, pod := range onFiles {
		if err := p.applyToFiles(ctx, pod, &room); err != nil {
			return err
		}
		delete(s.todoFiles, pod)
	}
	return nil
}

// applyOwn writes a pod's entry on the ordinary output, always: the API server
// stores nothing when nothing changed.
func (p *Publisher) applyOwn(ctx context.Context, pod string, room *int) error {
	s := p.statuses
	to := target{
		key: objectKey{kind: v1alpha1.KindCfg, name: s.cfg.Name}, uid: s.cfg.UID, version: s.cfg.ResourceVersion,
		get: func(ctx context.Context, name string) (metav1.Object, error) {
			return p.clients.Outputs.Get(ctx, name, metav1.GetOptions{})
		},
		apply: func(ctx context.Context, name string, patch []byte, manager string) (metav1.Object, error) {
			return p.clients.Outputs.Patch(ctx, name, types.ApplyPatchType, patch, applyOptions(manager), "status")
		},
	}
	version, err := p.applyEntry(ctx, room, s.entries[pod], to)
	if errors.Is(err, errAnew) {
		s.cfg = nil // read before the next try
		return err
	}
	s.cfg.ResourceVersion = version
	return err
}

// applyToFiles writes a pod's entries on the files of the output it runs, where
// they are not known to be there.
func (p *Publisher) applyToFiles(ctx context.Context, pod string, room *int) error {
	s := p.statuses
	entry := s.entries[pod]
	if entry.Checksum != s.cfg.Spec.Checksum || entry.LastError != "" {
		return nil
	}
	for i := range s.files {
		f := &s.files[i]
		onFile := v1alpha1.PodDeploymentStatus{
			PodName: pod, PodUID: entry.PodUID, PodRuntimeID: entry.PodRuntimeID, Checksum: f.checksum,
		}
		was, known := s.applied[appliedKey{pod: pod, object: f.key}]
		if f.uid == "" || known && was.uid == f.uid && reflect.DeepEqual(was.entry, onFile) {
			continue
		}
		status := p.kindNamed(f.key.kind).status()
		version, err := p.applyEntry(ctx, room, onFile, target{
			key: f.key, uid: f.uid, version: f.version, get: status.object, apply: status.apply,
		})
		if errors.Is(err, errAnew) {
			f.uid = "" // the next publication puts it right, and then the entry
			continue
		}
		if err != nil {
			return err
		}
		f.version = version
	}
	return nil
}

// target is the object that an entry is applied to, as it was seen last.
type target struct {
	key     objectKey
	uid     types.UID
	version string
	get     func(ctx context.Context, name string) (metav1.Object, error)
	apply   func(ctx context.Context, name string, patch []byte, manager string) (metav1.Object, error)
}

// applyEntry applies one entry and remembers what the object showed then. It
// gives the object's version since. What the API server refuses for good is told
// and left.
func (p *Publisher) applyEntry(ctx context.Context, room *int, entry v1alpha1.PodDeploymentStatus, to target) (version string, err error) {
	key := appliedKey{pod: entry.PodName, object: to.key}
	if was, ok := p.statuses.refused[key]; ok && reflect.DeepEqual(was, entry) {
		return to.version, nil
	}
	if *room--; *room < 0 {
		return to.version, errStepFull
	}
	manager := managerOf(entry.PodName)
	var object metav1.Object
	err = p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			live, err := to.get(ctx, to.key.name)
			if err != nil {
				return err
			}
			if live.GetUID() != to.uid {
				return errAnew
			}
			to.version = live.GetResourceVersion()
		}
		if err := p.fence.Check(ctx); err != nil {
			return err
		}
		var err error
		object, err = to.apply(ctx, to.key.name, entryPatch(to, entry), manager)
		return err
	})
	if apierrors.IsNotFound(err) {
		err = errAnew
	}
	if err != nil {
		err = explain(err, "apply the entry of pod %s to %s %s", entry.PodName, to.key.kind, to.key.name)
		if errors.Is(err, ErrRefused) {
			p.metrics.Publishes.WithLabelValues(whatStatus, outcomeRefused).Inc()
			klog.FromContext(ctx).Error(err, "A pod's entry was refused for good")
			p.statuses.refused[key] = entry
			return to.version, nil
		}
		return to.version, err
	}
	p.statuses.applied[key] = applied{
		uid: object.GetUID(), entry: entry, managed: managedBy(object, manager),
	}
	return object.GetResourceVersion(), nil
}

// entryPatch is the applied form of one entry. The API server does not compare
// the UID when a status is applied, but it does compare the version, and that
// keeps the entry off an object that was created anew.
func entryPatch(to target, entry v1alpha1.PodDeploymentStatus) []byte {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": to.key.kind,
		"metadata": map[string]any{"name": to.key.name, "uid": to.uid, "resourceVersion": to.version},
		"status":   map[string]any{"deployedToPods": []v1alpha1.PodDeploymentStatus{entry}},
	})
	if err != nil {
		// Strings, lists and numbers always encode.
		panic(fmt.Sprintf("encoding a pod's entry: %v", err))
	}
	return raw
}

func managerOf(pod string) string {
	manager := managerPrefix + pod
	if len(manager) <= maxManagerLength {
		return manager
	}
	sum := sha256.Sum256([]byte(pod))
	return managerPrefix + hex.EncodeToString(sum[:])
}
