package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

// Kind is what makes one resource different from another.
type Kind[V any, P viewcache.View[V]] struct {
	// Resource is the plural name.
	Resource schema.GroupResource
	// Singular is the name for one object.
	Singular string
	// Short are the abbreviations kubectl understands.
	Short []string
	// NewList makes a list of items that was true at a version.
	NewList func(items []V, version string) runtime.Object
	// Columns are what "kubectl get" shows.
	Columns []Column[P]
}

// Storage serves views of one kind from a cache.
type Storage[V any, P viewcache.View[V]] struct {
	kind  Kind[V, P]
	cache *viewcache.Cache[V, P]
	ready func() error
}

// anyView stands for every view in the assertions below.
type anyView = metav1.PartialObjectMetadata

// What clients may do follows from this list alone: no verb that writes.
// Without a category, "kubectl get all" never depends on this server.
var (
	_ rest.Storage              = (*Storage[anyView, *anyView])(nil)
	_ rest.Scoper               = (*Storage[anyView, *anyView])(nil)
	_ rest.SingularNameProvider = (*Storage[anyView, *anyView])(nil)
	_ rest.ShortNamesProvider   = (*Storage[anyView, *anyView])(nil)
	_ rest.Getter               = (*Storage[anyView, *anyView])(nil)
	_ rest.Lister               = (*Storage[anyView, *anyView])(nil)
	_ rest.Watcher              = (*Storage[anyView, *anyView])(nil)
)

// NewStorage returns the storage of a kind. As long as ready returns an error,
// data is refused: an empty or half-filled answer would look like the truth.
func NewStorage[V any, P viewcache.View[V]](kind Kind[V, P], cache *viewcache.Cache[V, P], ready func() error) *Storage[V, P] {
	return &Storage[V, P]{kind: kind, cache: cache, ready: ready}
}

// New returns an empty view.
func (s *Storage[V, P]) New() runtime.Object { return P(new(V)) }

// NewList returns an empty list.
func (s *Storage[V, P]) NewList() runtime.Object { return s.kind.NewList([]V{}, "") }

// Destroy has nothing to release: the cache belongs to who made it.
func (s *Storage[V, P]) Destroy() {}

// NamespaceScoped is true for every view, as for what it is computed from.
func (s *Storage[V, P]) NamespaceScoped() bool { return true }

// GetSingularName returns the name for one object.
func (s *Storage[V, P]) GetSingularName() string { return s.kind.Singular }

// ShortNames returns the abbreviations kubectl understands.
func (s *Storage[V, P]) ShortNames() []string { return s.kind.Short }

// Get returns one view.
func (s *Storage[V, P]) Get(ctx context.Context, name string, opts *metav1.GetOptions) (runtime.Object, error) {
	found, err := s.View(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// View returns one view with its type, for subresources.
func (s *Storage[V, P]) View(ctx context.Context, name string, opts *metav1.GetOptions) (P, error) {
	if err := s.available(); err != nil {
		return nil, err
	}
	if opts != nil {
		if err := s.cache.CheckVersion(opts.ResourceVersion); err != nil {
			return nil, err
		}
	}
	found, ok := s.cache.Get(genericapirequest.NamespaceValue(ctx), name)
	if !ok {
		return nil, apierrors.NewNotFound(s.kind.Resource, name)
	}
	return found, nil
}

// List returns all matching views.
func (s *Storage[V, P]) List(ctx context.Context, opts *metainternalversion.ListOptions) (runtime.Object, error) {
	if err := s.available(); err != nil {
		return nil, err
	}
	match, err := viewcache.MatchFor(genericapirequest.NamespaceValue(ctx), opts)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	items, version, err := s.cache.List(match, opts)
	if err != nil {
		return nil, err
	}
	return s.kind.NewList(items, version), nil
}

// Watch streams changes of matching views.
func (s *Storage[V, P]) Watch(ctx context.Context, opts *metainternalversion.ListOptions) (watch.Interface, error) {
	if err := s.available(); err != nil {
		return nil, err
	}
	match, err := viewcache.MatchFor(genericapirequest.NamespaceValue(ctx), opts)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.cache.Watch(ctx, match, opts)
}

// available turns "not yet" into an answer that clients wait for and repeat.
func (s *Storage[V, P]) available() error {
	err := s.ready()
	if err == nil {
		return nil
	}
	unavailable := apierrors.NewServiceUnavailable("views are not available yet: " + err.Error())
	unavailable.ErrStatus.Details = &metav1.StatusDetails{
		Group: s.kind.Resource.Group, Kind: s.kind.Resource.Resource, RetryAfterSeconds: 1,
	}
	return unavailable
}
