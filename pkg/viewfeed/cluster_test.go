package viewfeed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// stored is what a test stores.
type stored interface {
	runtime.Object
	metav1.Object
}

// cluster is an API server in memory: it has resource versions, streaming
// lists, selectors by label, refusals, and watches that break.
type cluster struct {
	mu       sync.Mutex
	version  int64
	now      time.Time
	objects  map[string]map[types.NamespacedName]stored
	watchers map[*clusterWatch]bool
	// refuse answers a kind with an error instead.
	refuse map[string]error
	// hold blocks Get until it is closed.
	hold chan struct{}
	gets int
}

type clusterWatch struct {
	kind, namespace string
	selector        labels.Selector
	*watch.RaceFreeFakeWatcher
}

func newCluster() *cluster {
	return &cluster{
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), version: 100,
		objects: map[string]map[types.NamespacedName]stored{}, watchers: map[*clusterWatch]bool{}, refuse: map[string]error{},
	}
}

func kindOf(obj runtime.Object) string {
	if template, ok := obj.(*unstructured.Unstructured); ok {
		return template.GetKind()
	}
	kind := fmt.Sprintf("%T", obj)
	return kind[slices.Index([]byte(kind), '.')+1:]
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// put creates or updates an object, as a user would.
func (c *cluster) put(obj stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	obj = obj.DeepCopyObject().(stored)
	kind, key := kindOf(obj), keyOf(obj)
	if c.objects[kind] == nil {
		c.objects[kind] = map[types.NamespacedName]stored{}
	}
	before := c.objects[kind][key]
	c.version++
	c.now = c.now.Add(time.Second)
	obj.SetResourceVersion(strconv.FormatInt(c.version, 10))
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "test", Time: &metav1.Time{Time: c.now}}})
	if before != nil {
		obj.SetCreationTimestamp(before.GetCreationTimestamp())
	} else {
		obj.SetCreationTimestamp(metav1.Time{Time: c.now})
	}
	c.objects[kind][key] = obj
	c.send(kind, before, obj)
}

// remove deletes an object.
func (c *cluster) remove(obj stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, key := kindOf(obj), keyOf(obj)
	before := c.objects[kind][key]
	delete(c.objects[kind], key)
	c.version++
	c.send(kind, before, nil)
}

func (c *cluster) send(kind string, before, after stored) {
	for w := range c.watchers {
		if w.kind != kind {
			continue
		}
		had, has := w.selects(before), w.selects(after)
		switch {
		case has && had:
			w.Modify(after.DeepCopyObject())
		case has:
			w.Add(after.DeepCopyObject())
		case had:
			w.Delete(before.DeepCopyObject())
		}
	}
}

func (w *clusterWatch) selects(obj stored) bool {
	return obj != nil && (w.namespace == "" || w.namespace == obj.GetNamespace()) && w.selector.Matches(labels.Set(obj.GetLabels()))
}

// breakWatches ends every watch with 410, so that reflectors start over.
func (c *cluster) breakWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := apierrors.NewResourceExpired("compacted").Status()
	for w := range c.watchers {
		w.Error(&gone)
		w.Stop()
	}
	clear(c.watchers)
}

func (c *cluster) setRefusal(kind string, err error) {
	c.mu.Lock()
	c.refuse[kind] = err
	c.mu.Unlock()
	c.breakWatches()
}

func (c *cluster) selected(kind, namespace string, opts metav1.ListOptions) ([]runtime.Object, labels.Selector, error) {
	if err := c.refuse[kind]; err != nil {
		return nil, nil, err
	}
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, nil, err
	}
	w := &clusterWatch{namespace: namespace, selector: selector}
	var found []runtime.Object
	for _, obj := range c.objects[kind] {
		if w.selects(obj) {
			found = append(found, obj.DeepCopyObject())
		}
	}
	return found, selector, nil
}

// List answers with everything, whatever the limit.
func (c *cluster) List(_ context.Context, kind, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, _, err := c.selected(kind, namespace, opts)
	if err != nil {
		return nil, err
	}
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(c.version, 10)}}
	return list, meta.SetList(list, found)
}

// Watch knows streaming lists and watches from now on.
func (c *cluster) Watch(_ context.Context, kind, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, selector, err := c.selected(kind, namespace, opts)
	if err != nil {
		return nil, err
	}
	w := &clusterWatch{kind: kind, namespace: namespace, selector: selector, RaceFreeFakeWatcher: watch.NewRaceFreeFake()}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		for _, obj := range found {
			w.Add(obj)
		}
		mark := emptyOf(kind)
		mark.SetResourceVersion(strconv.FormatInt(c.version, 10))
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		w.Action(watch.Bookmark, mark)
	}
	c.watchers[w] = true
	return w, nil
}

func emptyOf(kind string) stored {
	for _, k := range kinds {
		if k.name == kind {
			return k.example.DeepCopyObject().(stored)
		}
	}
	panic("no kind " + kind)
}

// Get waits while the test holds live reads back.
func (c *cluster) Get(ctx context.Context, kind, namespace, name string) (runtime.Object, error) {
	c.mu.Lock()
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets++
	obj := c.objects[kind][types.NamespacedName{Namespace: namespace, Name: name}]
	if obj == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupName, Resource: kind}, name)
	}
	return obj.DeepCopyObject(), nil
}
