package viewfeed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/view"
	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

// historyLimit is so short that clients often come back too late.
const historyLimit = 6

// replica is one server process, without HTTP and without goroutines of its
// feed: the history decides when a stream brings its next event and when a
// live read is made.
type replica struct {
	world   *world
	views   *Views
	feed    *Feed
	streams []*stream
	tasks   []task
	// timelines hold what became of each view, by resource and name, as lists
	// after every step showed it.
	timelines [resources]map[string][]moment
	present   [resources]map[string]stored
	version   [resources]uint64
}

// stream is where one reflector stands.
type stream struct {
	store  *store
	synced bool
	at     int
}

// moment is one change of a view. The version of a deletion is known only to
// lie above after and not above version.
type moment struct {
	after, version uint64
	before, now    stored
}

// Resources that clients ask for.
const (
	checkpoints = iota
	intents
	resources
)

func (w *world) newReplica(versions *viewcache.Versions) *replica {
	r := &replica{world: w}
	r.views = &Views{
		Checkpoints: viewcache.New[views.RetainedCheckpoint](viewcache.Options[views.RetainedCheckpoint]{
			Versions: versions, Fields: view.CheckpointFields, HistoryLimit: historyLimit,
		}),
		Intents: viewcache.New[views.DeploymentIntent](viewcache.Options[views.DeploymentIntent]{
			Versions: versions, Fields: view.IntentFields, HistoryLimit: historyLimit,
		}),
	}
	r.feed = &Feed{live: live{client: r}, metrics: w.metrics}
	r.feed.engine = newEngine(r.views, w.metrics, r.ask)
	for _, kind := range kinds {
		src := &source{kind: kind.name, needed: kind.needed, engine: r.feed.engine}
		r.feed.engine.sources = append(r.feed.engine.sources, src)
		r.feed.engine.settle(src, waiting)
		r.streams = append(r.streams, &stream{store: &store{source: src}})
	}
	for i := range r.timelines {
		r.timelines[i], r.present[i] = map[string][]moment{}, map[string]stored{}
	}
	r.record()
	return r
}

func (r *replica) ready() bool { return r.feed.Ready() == nil }

func (r *replica) ask(t task) {
	if !slices.Contains(r.tasks, t) {
		r.tasks = append(r.tasks, t)
	}
}

// deliver brings the next event of a stream, or all there is to a new one, and
// reports whether there was any.
func (r *replica) deliver(s *stream) bool {
	kind := s.store.source.kind
	events := r.world.truth.streams[kind]
	var err error
	switch {
	case !s.synced:
		s.synced, s.at = true, len(events)
		err = s.store.Replace(r.world.truth.all(kind), "")
	case s.at == len(events):
		return false
	case events[s.at].fact != nil:
		err = s.store.Update(events[s.at].fact)
		s.at++
	default:
		gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: events[s.at].name}}
		err = s.store.Delete(gone)
		s.at++
	}
	if err != nil {
		r.world.violation("stream of %s: %v", kind, err)
	}
	r.record()
	return true
}

// refuse makes a kind unreadable until its stream starts over.
func (r *replica) refuse(s *stream) {
	s.synced = false
	r.feed.engine.unreadable(s.store.source, forbidden)
	r.record()
}

// read makes one live read, and queues it again where the queue would.
func (r *replica) read(i int) {
	t := r.tasks[i]
	r.tasks = slices.Delete(r.tasks, i, i+1)
	_, err := r.feed.attempt(context.Background(), t)
	if err != nil || r.feed.engine.isUnstreamed(t) {
		r.ask(t)
	}
	r.feed.engine.attempted(t)
	r.record()
}

var errRefused = errors.New("not permitted")

// Get answers a live read. The world may go on between the answer and what the
// engine makes of it.
func (r *replica) Get(_ context.Context, kind, _, name string) (runtime.Object, error) {
	for _, s := range r.streams {
		if s.store.source.kind == kind && r.feed.engine.states[s.store.source] == forbidden {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, name, errRefused)
		}
	}
	now := r.world.truth.objects[idOf(kind, name)]
	for r.world.rand.IntN(3) == 0 {
		r.world.meanwhile(r)
	}
	if now == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupName, Resource: kind}, name)
	}
	return now.obj, nil
}

// List and Watch are not used: there are no reflectors.
func (r *replica) List(context.Context, string, string, metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.ErrUnsupported
}

func (r *replica) Watch(context.Context, string, string, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.ErrUnsupported
}

// list returns the views of a resource as a client would get them.
func (r *replica) list(resource int, match viewcache.Match) ([]stored, string) {
	if resource == checkpoints {
		return listed(r.views.Checkpoints, match)
	}
	return listed(r.views.Intents, match)
}

func listed[V any, P interface {
	viewcache.View[V]
	stored
}](cache *viewcache.Cache[V, P], match viewcache.Match) ([]stored, string) {
	items, version, err := cache.List(match, nil)
	if err != nil {
		panic(err)
	}
	found := make([]stored, 0, len(items))
	for i := range items {
		found = append(found, P(&items[i]))
	}
	return found, version
}

// record notes what the last step changed.
func (r *replica) record() {
	for resource := range r.timelines {
		items, text := r.list(resource, viewcache.Match{})
		version, _ := strconv.ParseUint(text, 10, 64)
		was := r.version[resource]
		if version == was {
			continue
		}
		if version < was {
			r.world.violation("version of a list went from %d to %d", was, version)
		}
		now := map[string]stored{}
		for _, obj := range items {
			name := obj.GetName()
			now[name] = obj
			before := r.present[resource][name]
			if before == nil || before.GetResourceVersion() != obj.GetResourceVersion() {
				own, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
				r.note(resource, name, moment{after: was, version: own, before: before, now: obj})
			}
		}
		for name, before := range r.present[resource] {
			if now[name] == nil {
				r.note(resource, name, moment{after: was, version: version, before: before})
			}
		}
		r.present[resource], r.version[resource] = now, version
	}
}

func (r *replica) note(resource int, name string, m moment) {
	if m.version <= m.after || m.version > max(m.after+64, r.version[resource]+64) {
		r.world.violation("a change of %s after version %d has version %d", name, m.after, m.version)
	}
	r.timelines[resource][name] = append(r.timelines[resource][name], m)
}

// settle delivers and reads until nothing is left to do.
func (r *replica) settle() {
	for range 50 {
		before, busy := r.version, false
		for _, s := range r.streams {
			for r.deliver(s) {
				busy = true
			}
		}
		for range len(r.tasks) {
			r.read(0)
		}
		if !busy && before == r.version && r.ready() {
			return
		}
	}
	r.world.violation("a feed never came to rest: ready %v, %d reads to do", r.feed.Ready(), len(r.tasks))
}

func (r *replica) close() { r.views.Close() }

// open starts a watch as the API server would.
func (r *replica) open(ctx context.Context, resource int, match viewcache.Match, opts *listOptions) (watch.Interface, error) {
	if resource == checkpoints {
		return r.views.Checkpoints.Watch(ctx, match, opts)
	}
	return r.views.Intents.Watch(ctx, match, opts)
}

// bare is what a replica knows, without versions, sorted.
func (r *replica) bare() []stored {
	var all []stored
	for resource := range r.present {
		var some []stored
		for _, obj := range r.present[resource] {
			copied := obj.DeepCopyObject().(stored)
			copied.SetResourceVersion("")
			some = append(some, copied)
		}
		slices.SortFunc(some, func(a, b stored) int { return cmp.Or(strings.Compare(a.GetName(), b.GetName())) })
		all = append(all, some...)
	}
	return all
}

func selectedBy(selector fields.Selector, obj stored) bool {
	switch o := obj.(type) {
	case *views.RetainedCheckpoint:
		return selector.Matches(view.CheckpointFields(o))
	case *views.DeploymentIntent:
		return selector.Matches(view.IntentFields(o))
	}
	return false
}
