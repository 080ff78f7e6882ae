package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// discoveryRetry is how often an absent kind is looked for again.
const discoveryRetry = 5 * time.Second

// watch follows one watched resource in all its namespaces.
type watch struct {
	name     string
	resource v1alpha1.WatchedResource
	config   InputsConfig
	cancel   context.CancelFunc

	mu        sync.Mutex
	informers []cache.SharedIndexInformer
	// problem is why the kind cannot be read, by namespace.
	problems map[string]error
	// creatable is what discovery said at the start: a kind that was, and is no
	// longer, is being removed from the server with all its objects.
	creatable bool
	// deleted says that objects went away since discovery was last asked.
	deleted bool
}

// run finds the kind, then follows it until ctx ends.
func (w *watch) run(ctx context.Context) {
	gvr, namespaces := w.discover(ctx)
	if ctx.Err() != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	made := make([]cache.SharedIndexInformer, 0, len(namespaces))
	for _, namespace := range namespaces {
		informer, err := w.informer(gvr, namespace)
		if err != nil {
			w.note(namespace, err)
			return
		}
		made = append(made, informer)
	}
	w.mu.Lock()
	w.informers = made
	w.mu.Unlock()
	for _, informer := range made {
		wg.Go(func() { informer.RunWithContext(ctx) })
		wg.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				w.config.Changed()
			}
		})
	}
}

// discover asks until the server knows the kind.
func (w *watch) discover(ctx context.Context) (gvr schema.GroupVersionResource, namespaces []string) {
	ticker := time.NewTicker(discoveryRetry)
	defer ticker.Stop()
	for {
		found, err := w.find(ctx)
		if err == nil {
			namespaces, err = w.namespaces(found.Namespaced)
		}
		w.note("", err)
		if err == nil {
			w.mu.Lock()
			w.creatable = slices.Contains(found.Verbs, "create")
			w.mu.Unlock()
			group, _ := schema.ParseGroupVersion(w.resource.APIVersion) // find parsed it
			return group.WithResource(w.resource.Resources), namespaces
		}
		select {
		case <-ctx.Done():
			return gvr, nil
		case <-ticker.C:
		}
	}
}

func (w *watch) find(ctx context.Context) (*metav1.APIResource, error) {
	if _, err := schema.ParseGroupVersion(w.resource.APIVersion); err != nil {
		return nil, err
	}
	list, err := w.config.Discovery.ServerResourcesForGroupVersionWithContext(ctx, w.resource.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("discovering it: %w", err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == w.resource.Resources {
			return &list.APIResources[i], nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: w.resource.Resources}, w.resource.APIVersion)
}

func (w *watch) namespaces(namespaced bool) ([]string, error) {
	asked := w.resource.Namespaces
	switch {
	case !namespaced && len(asked) > 0 && asked[0] != "*":
		return nil, errors.New("the kind has no namespaces, but some are asked for")
	case !namespaced || slices.Contains(asked, "*"):
		return []string{metav1.NamespaceAll}, nil
	case len(asked) == 0:
		return []string{w.config.Namespace}, nil
	}
	return slices.Compact(slices.Sorted(slices.Values(asked))), nil
}

func (w *watch) informer(gvr schema.GroupVersionResource, namespace string) (cache.SharedIndexInformer, error) {
	client := w.config.Client.Resource(gvr).Namespace(namespace)
	selected := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = w.resource.LabelSelector, w.resource.FieldSelector
		return options
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, selected(options))
			if err == nil {
				w.note(namespace, nil)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			stream, err := client.Watch(ctx, selected(options))
			if err == nil {
				w.note(namespace, nil)
			}
			return stream, err
		},
	}
	informer := cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(source, w.config.Client), &unstructured.Unstructured{}, 0, cache.Indexers{})
	if err := informer.SetTransform(forget); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			// The server's own words, without the reflector's about its types.
			var status *apierrors.StatusError
			if errors.As(err, &status) {
				err = status
			}
			w.note(namespace, err)
		}
		klog.FromContext(ctx).V(2).Info("Watch ended and will be retried", "resource", w.name, "err", err)
	}); err != nil {
		return nil, err
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.config.Changed() },
		UpdateFunc: func(any, any) { w.config.Changed() },
		DeleteFunc: func(any) {
			w.mu.Lock()
			w.deleted = true
			w.mu.Unlock()
			w.config.Changed()
		},
	})
	return informer, err
}

// forget drops what templates have no use for.
func forget(object any) (any, error) {
	if o, ok := object.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	}
	return object, nil
}

// note remembers the last problem of a namespace, nil for none.
func (w *watch) note(namespace string, err error) {
	w.mu.Lock()
	before := w.problems[namespace]
	if w.problems == nil {
		w.problems = map[string]error{}
	}
	w.problems[namespace] = err
	w.mu.Unlock()
	if (before == nil) != (err == nil) {
		w.config.Changed()
	}
}

// objects are all that is watched, in any order, or why they are not known.
func (w *watch) objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	w.mu.Lock()
	informers, deleted, creatable := w.informers, w.deleted, w.creatable
	problem := w.worst()
	w.deleted = false
	w.mu.Unlock()
	if problem != nil && isRefusal(problem) {
		return nil, problem
	}
	synced := len(informers) > 0
	for _, informer := range informers {
		synced = synced && informer.HasSynced()
	}
	if !synced {
		if problem != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotSynced, problem)
		}
		return nil, ErrNotSynced
	}
	if deleted && creatable {
		if err := w.stillServed(ctx); err != nil {
			w.mu.Lock()
			w.deleted = true
			w.mu.Unlock()
			return nil, err
		}
	}
	var out []*unstructured.Unstructured
	for _, informer := range informers {
		for _, object := range informer.GetStore().List() {
			if o, ok := object.(*unstructured.Unstructured); ok {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// worst is the problem to tell of: a refusal before one that may pass.
func (w *watch) worst() error {
	var worst error
	for _, namespace := range slices.Sorted(maps.Keys(w.problems)) {
		if err := w.problems[namespace]; err != nil && (worst == nil || isRefusal(err) && !isRefusal(worst)) {
			worst = err
		}
	}
	return worst
}

// stillServed tells deleted objects from a deleted kind: a custom resource whose
// definition goes away loses its objects one by one first, and rendering with
// the rest would take routes away that nobody removed.
func (w *watch) stillServed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, discoveryRetry)
	defer cancel()
	found, err := w.find(ctx)
	switch {
	case err != nil && isRefusal(err):
		return err
	case err == nil && !slices.Contains(found.Verbs, "create"):
		return errors.New("the kind is being removed from the server")
	}
	// Any other failure to ask is no sign of that.
	return nil
}

// isRefusal reports errors that mean "not there" or "not allowed".
func isRefusal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsBadRequest(err)
}
