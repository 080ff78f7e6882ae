package publish

import (
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// statuses knows the per-pod entries. All of it belongs to the goroutine of
// Run; what other goroutines hand over waits in the Publisher.
type statuses struct {
	// cfg is the ordinary output as it was published or read last, nil before.
	cfg   *v1alpha1.HAProxyCfg
	files []publishedFile
	// room is how many bytes of entries the fullest of these objects takes.
	room int
	// entries are the newest of each living pod.
	entries map[string]v1alpha1.PodDeploymentStatus
	// todo are the pods whose own entry must be applied, and todoFiles those whose
	// entries on files may be missing.
	todo, todoFiles map[string]bool
	// applied are the entries that objects are known to carry.
	applied map[appliedKey]applied
	// refused are the entries that the API server will never take.
	refused map[appliedKey]v1alpha1.PodDeploymentStatus
	// compared is when that was last held against live objects.
	compared time.Time
}

// publishedFile is a file of the ordinary output that carries entries.
type publishedFile struct {
	key objectKey
	// uid is empty once the object is known not to be the published one.
	uid      types.UID
	version  string
	checksum string
}

type appliedKey struct {
	pod    string
	object objectKey
}

// applied is what an object showed after an entry was applied.
type applied struct {
	uid     types.UID
	entry   v1alpha1.PodDeploymentStatus
	managed []metav1.ManagedFieldsEntry
}

func newStatuses() *statuses {
	return &statuses{
		room:    fleetRoom,
		entries: map[string]v1alpha1.PodDeploymentStatus{},
		todo:    map[string]bool{}, todoFiles: map[string]bool{},
		applied: map[appliedKey]applied{}, refused: map[appliedKey]v1alpha1.PodDeploymentStatus{},
	}
}

// published takes the output that was just published. Its files may be new, so
// the entries on them are looked at again.
func (s *statuses) published(cfg *v1alpha1.HAProxyCfg, e *encoded, name func(*file) string, children []*child) {
	s.cfg = cfg.DeepCopy()
	s.room = e.entryRoom
	s.files = s.files[:0]
	for i := range e.files {
		if f := &e.files[i]; !f.Family.IsSecret() {
			s.files = append(s.files, publishedFile{
				key: objectKey{kind: f.Family.Kind(), name: name(f)}, checksum: f.checksum,
				uid: children[i].GetUID(), version: children[i].GetResourceVersion(),
			})
		}
	}
	for pod := range s.entries {
		s.todoFiles[pod] = true
	}
	current := map[objectKey]bool{{kind: v1alpha1.KindCfg, name: cfg.Name}: true}
	for _, f := range s.files {
		current[f.key] = true
	}
	maps.DeleteFunc(s.refused, func(key appliedKey, _ v1alpha1.PodDeploymentStatus) bool { return !current[key.object] })
}

// compare forgets every entry that an object no longer shows exactly as it was
// applied, so that it is applied again.
func (s *statuses) compare(cfg *v1alpha1.HAProxyCfg, found *listed) {
	s.compared = time.Now()
	output := objectKey{kind: v1alpha1.KindCfg, name: cfg.Name}
	for key, was := range s.applied {
		if key.object == output {
			if !was.shownBy(cfg, cfg.Status.DeployedToPods, key.pod) {
				delete(s.applied, key)
				s.todo[key.pod] = true
			}
			continue
		}
		if c := found.found[key.object]; c == nil || !was.shownBy(c, c.entries, key.pod) {
			delete(s.applied, key)
			s.todoFiles[key.pod] = true
		}
	}
}

// wrote takes the ordinary output as it was just written.
func (s *statuses) wrote(cfg *v1alpha1.HAProxyCfg) {
	if s.cfg != nil && s.cfg.UID == cfg.UID {
		s.cfg.ResourceVersion = cfg.ResourceVersion
	}
}

// seen takes what the output and its files are now.
func (s *statuses) seen(cfg *v1alpha1.HAProxyCfg, found *listed) {
	if s.cfg == nil || s.cfg.UID != cfg.UID {
		s.cfg = cfg.DeepCopy()
	}
	s.wrote(cfg)
	for i := range s.files {
		f := &s.files[i]
		if c := found.found[f.key]; c == nil || c.GetUID() != f.uid {
			f.uid = ""
		} else {
			f.version = c.GetResourceVersion()
		}
	}
}

func (a applied) shownBy(object metav1.Object, entries []v1alpha1.PodDeploymentStatus, pod string) bool {
	if object.GetUID() != a.uid || !reflect.DeepEqual(managedBy(object, managerOf(pod)), a.managed) {
		return false
	}
	entry, ok := entryOf(entries, pod)
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
		}
	}
	for key, was := range s.applied {
		if isGone(was.entry, living) {
			delete(s.applied, key)
		}
	}
	for key, entry := range s.refused {
		if isGone(entry, living) {
			delete(s.refused, key)
		}
	}
}

// due are the pods of a set that have an entry and room for it, in order. Others
// leave the set: gone pods, and those that shown leaves out.
func (s *statuses) due(set map[string]bool) []string {
	shown := s.shown()
	var pods []string
	for pod := range set {
		if shown[pod] {
			pods = append(pods, pod)
			continue
		}
		delete(set, pod)
	}
	slices.Sort(pods)
	return pods
}

// shown are the pods whose entries fit into the objects that carry them. An
// object that is full cannot be changed at all any more, by its pointers
// neither, so the last pods by name are left out instead.
func (s *statuses) shown() map[string]bool {
	pods := make([]string, 0, len(s.entries))
	for pod := range s.entries {
		pods = append(pods, pod)
	}
	slices.Sort(pods)
	shown := make(map[string]bool, len(pods))
	used := 0
	for _, pod := range pods {
		if used += entryBytes(s.entries[pod]); used > s.room {
			break
		}
		shown[pod] = true
	}
	return shown
}

// unwanted tells entries that must go: those of gone pods, and of living pods
// that there is no room for.
func (s *statuses) unwanted(living map[string]string) func(v1alpha1.PodDeploymentStatus) bool {
	shown := s.shown()
	return func(entry v1alpha1.PodDeploymentStatus) bool {
		_, known := s.entries[entry.PodName]
		return isGone(entry, living) || known && !shown[entry.PodName]
	}
}

// isGone matches by name, and by UID where both sides have one.
func isGone(entry v1alpha1.PodDeploymentStatus, living map[string]string) bool {
	uid, ok := living[entry.PodName]
	return !ok || uid != "" && entry.PodUID != "" && uid != entry.PodUID
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
