package viewcache

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// defaultHistoryLimit is how many changes a watcher may lag behind, and how
	// old a version may be to be resumed. Each costs about one view in memory.
	defaultHistoryLimit = 1024
	// defaultBookmarkInterval is the built-in server's.
	defaultBookmarkInterval = time.Minute
	// defaultSendTimeout is how long one event may wait for its reader.
	defaultSendTimeout = 30 * time.Second
)

// View is the pointer type of a view V.
type View[V any] interface {
	*V
	runtime.Object
	metav1.Object
}

// Options tune a cache. Zero values take the defaults.
type Options[V any] struct {
	// Versions is shared by every cache of the process. Restart replaces it.
	Versions *Versions
	// Fields returns the selectable fields of an object beside
	// metadata.name and metadata.namespace.
	Fields           func(obj *V) fields.Set
	HistoryLimit     int
	BookmarkInterval time.Duration
	SendTimeout      time.Duration
	// OnSlowWatcher is called for every watch that is closed because nobody
	// read it for SendTimeout.
	OnSlowWatcher func()
}

// Cache holds the present views of one resource and the history of how they
// came about.
type Cache[V any, P View[V]] struct {
	opts  Options[V]
	known fields.Set

	// watchers are waited for by Close.
	watchers sync.WaitGroup

	mu      sync.RWMutex
	closed  bool
	objects map[key]P
	// history holds the newest changes, oldest first. A watch can be resumed
	// from floor or later.
	history []change[V, P]
	floor   uint64
	current uint64
	// restarts counts the histories before this one. A watch belongs to one.
	restarts int
	// changed is closed and replaced whenever the history grows.
	changed chan struct{}
}

type key struct{ namespace, name string }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// change is one step of the history: before or after is nil for a creation or
// a deletion.
type change[V any, P View[V]] struct {
	version       uint64
	before, after P
}

// New returns an empty cache.
func New[V any, P View[V]](opts Options[V]) *Cache[V, P] {
	opts.HistoryLimit = cmp.Or(opts.HistoryLimit, defaultHistoryLimit)
	opts.BookmarkInterval = cmp.Or(opts.BookmarkInterval, defaultBookmarkInterval)
	opts.SendTimeout = cmp.Or(opts.SendTimeout, defaultSendTimeout)
	c := &Cache[V, P]{
		opts:    opts,
		objects: map[key]P{},
		floor:   opts.Versions.base,
		current: opts.Versions.base,
		changed: make(chan struct{}),
	}
	c.known = c.fieldsOf(new(V))
	return c
}

// Set makes obj the present view of its name and reports whether that changed
// anything. The cache owns obj from then on.
func (c *Cache[V, P]) Set(obj P) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key{obj.GetNamespace(), obj.GetName()}
	before := c.objects[k]
	if before != nil {
		// Compared under the same version, because that is not part of the view.
		obj.SetResourceVersion(before.GetResourceVersion())
		if equality.Semantic.DeepEqual(before, obj) {
			return false
		}
	}
	version := c.opts.Versions.next()
	obj.SetResourceVersion(formatVersion(version))
	c.objects[k] = obj
	c.append(change[V, P]{version: version, before: before, after: obj})
	return true
}

// Delete removes a view and reports whether there was one.
func (c *Cache[V, P]) Delete(namespace, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key{namespace, name}
	before := c.objects[k]
	if before == nil {
		return false
	}
	delete(c.objects, k)
	c.append(change[V, P]{version: c.opts.Versions.next(), before: before})
	return true
}

// Forget drops the history but not the views. Called once when the first
// round is over: nobody can hold a version from before, and the steps that led
// here would otherwise stay in memory.
func (c *Cache[V, P]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = nil
	c.floor = c.current
}

func (c *Cache[V, P]) append(step change[V, P]) {
	c.history = append(c.history, step)
	c.current = step.version
	// Cut in halves, so that a change costs constant time on average and the
	// array underneath is really released.
	if len(c.history) >= 2*c.opts.HistoryLimit {
		cut := len(c.history) - c.opts.HistoryLimit
		c.floor = c.history[cut-1].version
		c.history = slices.Clone(c.history[cut:])
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Get returns one view.
func (c *Cache[V, P]) Get(namespace, name string) (P, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	obj, ok := c.objects[key{namespace, name}]
	if !ok {
		return nil, false
	}
	return own[V, P](obj), true
}

// Present returns one view without a copy, or nil. Nothing of it may be changed
// or given to an encoder.
func (c *Cache[V, P]) Present(namespace, name string) P {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objects[key{namespace, name}]
}

// Len returns the number of views.
func (c *Cache[V, P]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.objects)
}

// own returns a copy of the top level, because encoders write the kind into
// what they are given. Everything below is shared and never written.
func own[V any, P View[V]](obj P) P {
	copied := *obj
	return &copied
}

// snapshot returns the matching views, sorted. The caller holds the lock.
func (c *Cache[V, P]) snapshot(match Match) []P {
	found := make([]P, 0, len(c.objects))
	if name, one := match.exactName(); one && match.Namespace != "" {
		if obj := c.objects[key{match.Namespace, name}]; obj != nil && c.matches(match, obj) {
			found = append(found, obj)
		}
		return found
	}
	for _, obj := range c.objects {
		if c.matches(match, obj) {
			found = append(found, obj)
		}
	}
	slices.SortFunc(found, func(a, b P) int {
		return compareKeys(key{a.GetNamespace(), a.GetName()}, key{b.GetNamespace(), b.GetName()})
	})
	return found
}

// since returns the steps after a version of a history, or false if some of them
// are gone. The caller holds the lock.
func (c *Cache[V, P]) since(version uint64, restarts int) ([]change[V, P], bool) {
	if version < c.floor || restarts != c.restarts {
		return nil, false
	}
	first := sort.Search(len(c.history), func(i int) bool { return c.history[i].version > version })
	return c.history[first:], true
}

func (c *Cache[V, P]) matches(match Match, obj P) bool {
	return match.matches(obj, func() fields.Set { return c.fieldsOf((*V)(obj)) })
}

func (c *Cache[V, P]) fieldsOf(obj *V) fields.Set {
	set := fields.Set{}
	if c.opts.Fields != nil {
		set = c.opts.Fields(obj)
	}
	set["metadata.name"] = P(obj).GetName()
	set["metadata.namespace"] = P(obj).GetNamespace()
	return set
}

// Close ends every watch and waits until their goroutines are gone.
func (c *Cache[V, P]) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.changed)
		c.changed = make(chan struct{})
	}
	c.mu.Unlock()
	c.watchers.Wait()
}
