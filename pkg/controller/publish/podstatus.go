package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// statuses writes the per-pod entries. All of it belongs to the goroutine of
// Run; what other goroutines hand over waits in the Publisher.
type statuses struct {
	// cfg is the ordinary output as it was published last, nil before.
	cfg   *v1alpha1.HAProxyCfg
	files []publishedFile
	// entries are the newest of each living pod.
	entries map[string]v1alpha1.PodDeploymentStatus
	// todo are the pods whose own entry must be applied, and files those whose
	// entries on files may be missing.
	todo, todoFiles map[string]bool
	// applied are the entries that files are known to carry.
	applied map[appliedKey]applied
}

// publishedFile is a file of the ordinary output that carries entries.
type publishedFile struct {
	key      objectKey
	checksum string
}

type appliedKey struct {
	pod  string
	file objectKey
}

// applied is what an object showed after an entry was applied.
type applied struct {
	uid     types.UID
	entry   v1alpha1.PodDeploymentStatus
	managed []metav1.ManagedFieldsEntry
}

func newStatuses() *statuses {
	return &statuses{
		entries: map[string]v1alpha1.PodDeploymentStatus{},
		todo:    map[string]bool{}, todoFiles: map[string]bool{},
		applied: map[appliedKey]applied{},
	}
}

// published takes the output that was just published, and forgets every entry
// that its files no longer show exactly as it was applied.
func (s *statuses) published(cfg *v1alpha1.HAProxyCfg, e *encoded, name func(*file) string, found *listed) {
	s.cfg = cfg
	s.files = s.files[:0]
	for i := range e.files {
		if f := &e.files[i]; !f.Family.IsSecret() {
			s.files = append(s.files, publishedFile{
				key: objectKey{kind: f.Family.Kind(), name: name(f)}, checksum: f.checksum,
			})
		}
	}
	for key, was := range s.applied {
		if c := found.found[key.file]; c == nil || !was.shownBy(c, key.pod) {
			delete(s.applied, key)
		}
	}
	for pod := range s.entries {
		s.todoFiles[pod] = true
	}
}

func (a applied) shownBy(c *child, pod string) bool {
	if c.GetUID() != a.uid || !reflect.DeepEqual(managedBy(c, managerOf(pod)), a.managed) {
		return false
	}
	entry, ok := entryOf(c.entries, pod)
	return ok && reflect.DeepEqual(entry, a.entry)
}

// take adds what was handed over since.
func (s *statuses) take(entries map[string]v1alpha1.PodDeploymentStatus) {
	for pod, entry := range entries {
		s.entries[pod] = entry
		s.todo[pod], s.todoFiles[pod] = true, true
	}
}

// keep forgets the pods that are gone.
func (s *statuses) keep(living map[string]string) {
	for pod, entry := range s.entries {
		if isGone(entry, living) {
			delete(s.entries, pod)
			delete(s.todo, pod)
			delete(s.todoFiles, pod)
		}
	}
	for key, was := range s.applied {
		if isGone(was.entry, living) {
			delete(s.applied, key)
		}
	}
}

// isGone matches by name, and by UID where both sides have one.
func isGone(entry v1alpha1.PodDeploymentStatus, living map[string]string) bool {
	uid, ok := living[entry.PodName]
	return !ok || uid != "" && entry.PodUID != "" && uid != entry.PodUID
}

// applyEntries writes the entries that are due. more tells that the bound of
// one step was reached.
func (p *Publisher) applyEntries(ctx context.Context) (more bool, err error) {
	s := p.statuses
	if len(s.todo) == 0 && len(s.todoFiles) == 0 {
		return false, nil
	}
	if s.cfg == nil {
		ordinary, err := p.readOrdinary(ctx)
		if err != nil {
			return false, err
		}
		s.cfg = ordinary
	}
	if err := p.fence.Check(ctx); err != nil {
		return false, err
	}
	room := maxAppliesPerStep
	for _, pod := range sortedKeys(s.todo) {
		if room--; room < 0 {
			return true, nil
		}
		if err := p.applyOwn(ctx, pod); err != nil {
			return false, err
		}
		delete(s.todo, pod)
	}
	for _, pod := range sortedKeys(s.todoFiles) {
		if room, err = p.applyToFiles(ctx, pod, room); err != nil || room < 0 {
			return room < 0, err
		}
		delete(s.todoFiles, pod)
	}
	return false, nil
}

// applyOwn writes a pod's entry on the ordinary output, always: the API server
// stores nothing when nothing changed.
func (p *Publisher) applyOwn(ctx context.Context, pod string) error {
	s := p.statuses
	patch := entryPatch(v1alpha1.KindCfg, s.cfg, s.entries[pod])
	_, err := p.clients.Outputs.Patch(ctx, s.cfg.Name, types.ApplyPatchType, patch, applyOptions(managerOf(pod)), "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		s.cfg = nil // it was recreated; its new UID is read before the next try
	}
	if err != nil {
		return explain(err, "apply the entry of pod %s", pod)
	}
	return nil
}

// applyToFiles writes a pod's entries on the files of the output it runs, where
// they are not known to be there.
func (p *Publisher) applyToFiles(ctx context.Context, pod string, room int) (int, error) {
	s := p.statuses
	entry := s.entries[pod]
	if entry.Checksum != s.cfg.Spec.Checksum || entry.LastError != "" {
		return room, nil
	}
	for _, f := range s.files {
		onFile := v1alpha1.PodDeploymentStatus{
			PodName: pod, PodUID: entry.PodUID, PodRuntimeID: entry.PodRuntimeID, Checksum: f.checksum,
		}
		key := appliedKey{pod: pod, file: f.key}
		if was, ok := s.applied[key]; ok && reflect.DeepEqual(was.entry, onFile) {
			continue
		}
		if room--; room < 0 {
			return room, nil
		}
		manager := managerOf(pod)
		patch := entryPatch(f.key.kind, &metav1.ObjectMeta{Name: f.key.name}, onFile)
		c, err := p.kindNamed(f.key.kind).status().apply(ctx, f.key.name, patch, manager)
		if apierrors.IsNotFound(err) {
			continue // the next publication creates it, and then the entry
		}
		if err != nil {
			return room, explain(err, "apply the entry of pod %s to %s %s", pod, f.key.kind, f.key.name)
		}
		s.applied[key] = applied{uid: c.GetUID(), entry: onFile, managed: managedBy(c, manager)}
	}
	return room, nil
}

// entryPatch is the applied form of one entry. The UID, where it is known,
// keeps it off an object that was created anew.
func entryPatch(kind string, object metav1.Object, entry v1alpha1.PodDeploymentStatus) []byte {
	meta := map[string]any{"name": object.GetName()}
	if uid := object.GetUID(); uid != "" {
		meta["uid"] = uid
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind, "metadata": meta,
		"status": map[string]any{"deployedToPods": []v1alpha1.PodDeploymentStatus{entry}},
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

func managedBy(object metav1.Object, manager string) []metav1.ManagedFieldsEntry {
	var entries []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == manager {
			entries = append(entries, entry)
		}
	}
	return entries
}

func entryOf(entries []v1alpha1.PodDeploymentStatus, pod string) (v1alpha1.PodDeploymentStatus, bool) {
	for i := range entries {
		if entries[i].PodName == pod {
			return entries[i], true
		}
	}
	return v1alpha1.PodDeploymentStatus{}, false
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
