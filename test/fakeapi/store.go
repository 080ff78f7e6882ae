package fakeapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// stored is one version of an object. It is never changed once it is stored.
type stored struct {
	kind    *kind
	object  runtime.Object
	meta    metav1.Object
	encoded []byte
	version int64
	// tree is made on demand, under the store's lock.
	tree map[string]any
}

// asMap is the object as JSON values. Callers hold the store's lock.
func (o *stored) asMap() map[string]any {
	if o == nil {
		return nil
	}
	if o.tree == nil {
		o.tree = treeOf(o.object)
	}
	return o.tree
}

func treeOf(object runtime.Object) map[string]any {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.Object
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(fmt.Errorf("turning a stored object into JSON values: %w", err))
	}
	return tree
}

type objectKey struct{ namespace, name string }

func (k objectKey) compare(other objectKey) int {
	if c := strings.Compare(k.namespace, other.namespace); c != 0 {
		return c
	}
	return strings.Compare(k.name, other.name)
}

// logged is one change in the history of a resource. Watches hold on to the
// last one they delivered, so forgetting history never harms them.
type logged struct {
	event    watch.EventType
	version  int64
	old, new *stored
	next     *logged
}

// table holds one resource: its objects and its history.
type table struct {
	objects map[objectKey]*stored
	// oldest is the change before the first that is kept; newest is the last.
	oldest, newest *logged
	kept           int
	watches        map[*watchStream]struct{}
}

func newTable(version int64) *table {
	start := &logged{version: version}
	return &table{
		objects: map[objectKey]*stored{},
		oldest:  start, newest: start,
		watches: map[*watchStream]struct{}{},
	}
}

// sorted lists the objects of a namespace, or of all.
func (t *table) sorted(namespace string) []*stored {
	keys := make([]objectKey, 0, len(t.objects))
	for key := range t.objects {
		if namespace == "" || key.namespace == namespace {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, objectKey.compare)
	objects := make([]*stored, 0, len(keys))
	for _, key := range keys {
		objects = append(objects, t.objects[key])
	}
	return objects
}

func (t *table) append(change *logged, limit int) {
	t.newest.next = change
	t.newest = change
	if t.kept++; t.kept > limit {
		t.oldest, t.kept = t.oldest.next, t.kept-1
	}
	for w := range t.watches {
		w.wake()
	}
}

// forget drops the history up to a version.
func (t *table) forget(version int64) {
	last := &logged{version: version}
	t.newest.next = last
	t.oldest, t.newest, t.kept = last, last, 0
}

// commit stores an object under the next version. The object is the store's
// from here on.
func (s *Server) commit(r *request, k *kind, object runtime.Object) (*stored, error) {
	o, err := s.encode(k, object, s.version+1)
	if err != nil {
		return nil, err
	}
	t, key := s.tables[k], objectKey{o.meta.GetNamespace(), o.meta.GetName()}
	old := t.objects[key]
	err = checkStoredSize(o, old != nil)
	if err != nil && slices.Contains([]string{"create", "update", "patch"}, r.Verb) {
		// What is too large is tried again without managedFields. An apply
		// needs them, so it is not.
		o.meta.SetManagedFields(nil)
		if o, err = s.encode(k, object, s.version+1); err == nil {
			err = checkStoredSize(o, old != nil)
		}
	}
	if err != nil {
		return nil, err
	}
	change := &logged{event: watch.Added, version: o.version, old: old, new: o}
	if old != nil {
		change.event = watch.Modified
	}
	t.objects[key] = o
	s.publish(r.Client, k, change)
	return o, nil
}

// discard deletes an object and returns what watchers see: its last state
// under the version of the deletion.
func (s *Server) discard(client string, old *stored) (*stored, error) {
	last, err := s.encode(old.kind, old.object.DeepCopyObject(), s.version+1)
	if err != nil {
		return nil, err
	}
	delete(s.tables[old.kind].objects, objectKey{old.meta.GetNamespace(), old.meta.GetName()})
	s.publish(client, old.kind, &logged{event: watch.Deleted, version: last.version, old: old, new: last})
	return last, nil
}

func (s *Server) publish(client string, k *kind, change *logged) {
	s.version = change.version
	s.tables[k].append(change, s.options.History)
	if len(s.observers) == 0 {
		return
	}
	c := Change{
		Type: string(change.event), GVR: k.gvr, Client: client,
		Namespace: change.new.meta.GetNamespace(), Name: change.new.meta.GetName(),
		Old: change.old.asMap(), New: change.new.asMap(),
	}
	for _, observe := range s.observers {
		observe(c)
	}
}

func (s *Server) encode(k *kind, object runtime.Object, version int64) (*stored, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strconv.FormatInt(version, 10))
	encoded, err := marshal(object)
	if err != nil {
		return nil, err
	}
	return &stored{kind: k, object: object, meta: accessor, encoded: encoded, version: version}, nil
}

func marshal(object runtime.Object) ([]byte, error) {
	var value any = object
	if u, ok := object.(*unstructured.Unstructured); ok {
		value = u.Object
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	return encoded, nil
}

func mustEncode(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("encoding an answer: %w", err))
	}
	return encoded
}

func (s *Server) find(r *request) *stored {
	return s.tables[r.kind].objects[objectKey{r.Namespace, r.Name}]
}
