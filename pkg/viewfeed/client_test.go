package viewfeed

import (
	"strconv"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

type listOptions = metainternalversion.ListOptions

// client keeps what an informer would, and where it stands in the timeline of
// every object, so that a lost, doubled or invented event is noticed when it
// happens and not only where it leaves a trace.
type client struct {
	world    *world
	number   int
	resource int
	selector fields.Selector
	match    viewcache.Match

	// from is the replica that issued version.
	from    *replica
	version string
	store   map[string]stored
	seen    map[string]int

	watch   watch.Interface
	watches *replica
	// state collects a streaming list until its bookmark, and stateSeen is where
	// the timelines stood when it was opened.
	state     map[string]stored
	stateSeen map[string]int
	// foreign: the server that is asked did not issue the version.
	foreign bool
}

func (w *world) newClient(number, resource int, selector string) *client {
	c := &client{world: w, number: number, resource: resource, selector: fields.ParseSelectorOrDie(selector)}
	match, err := viewcache.MatchFor("", &listOptions{FieldSelector: c.selector})
	if err != nil {
		panic(err)
	}
	c.match = match
	return c
}

func (c *client) breakOff() {
	if c.watch != nil {
		c.watch.Stop()
		for range c.watch.ResultChan() { // the rest is lost, as on a broken connection
		}
	}
	c.watch, c.watches, c.state, c.stateSeen, c.foreign = nil, nil, nil, nil, false
}

// positions are where the timelines of a replica end now.
func (c *client) positions(r *replica) map[string]int {
	ends := map[string]int{}
	for name, timeline := range r.timelines[c.resource] {
		ends[name] = len(timeline)
	}
	return ends
}

func (c *client) relist(r *replica) {
	c.breakOff()
	if !r.ready() {
		return
	}
	items, version := r.list(c.resource, c.match)
	c.from, c.version, c.store, c.seen = r, version, map[string]stored{}, c.positions(r)
	for _, obj := range items {
		c.store[obj.GetName()] = obj
	}
	c.world.counts.lists++
}

// open resumes where the client stopped, at any replica, in one of the ways
// that clients have.
func (c *client) open(r *replica) {
	if c.watch != nil || !r.ready() {
		return
	}
	opts := &listOptions{ResourceVersion: c.version, AllowWatchBookmarks: true}
	if c.version == "" || c.world.rand.IntN(3) == 0 {
		yes := true
		opts.SendInitialEvents, opts.ResourceVersionMatch = &yes, metav1.ResourceVersionMatchNotOlderThan
		c.state, c.stateSeen = map[string]stored{}, c.positions(r)
	}
	w, err := r.open(c.world.t.Context(), c.resource, c.match, opts)
	if err != nil {
		c.world.violation("client %d: watch: %v", c.number, err)
		return
	}
	c.watch, c.watches, c.foreign = w, r, c.version != "" && r != c.from
	c.world.counts.watches++
}

// read takes up to n events and reports whether there was one.
func (c *client) read(n int) (some bool) {
	for range n {
		if c.watch == nil {
			return some
		}
		synctest.Wait()
		select {
		case e, ok := <-c.watch.ResultChan():
			some = true
			if !ok {
				c.breakOff()
				return some
			}
			c.take(e)
		default:
			return some
		}
	}
	return some
}

func (c *client) take(e watch.Event) {
	c.world.counts.events++
	if e.Type == watch.Error {
		c.refused(apierrors.FromObject(e.Object))
		return
	}
	obj := e.Object.(stored)
	switch {
	case c.foreign:
		c.world.violation("client %d: version %s of another server was continued with %s %s", c.number, c.version, e.Type, obj.GetName())
		c.foreign = false
	case e.Type == watch.Bookmark:
		c.takeBookmark(obj)
	case c.state != nil:
		if e.Type != watch.Added || c.state[obj.GetName()] != nil {
			c.world.violation("client %d: %s of %s before the closing bookmark", c.number, e.Type, obj.GetName())
		}
		c.state[obj.GetName()] = obj
	default:
		c.takeChange(e.Type, obj)
	}
}

func (c *client) refused(err error) {
	if !apierrors.IsResourceExpired(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		c.world.violation("client %d: unexpected error %v", c.number, err)
	}
	if c.version == "" {
		c.world.violation("client %d: a request without version was refused: %v", c.number, err)
	}
	c.world.counts.expired++
	c.breakOff()
	c.version = ""
}

func (c *client) takeBookmark(obj stored) {
	closing := obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	if closing != (c.state != nil) {
		c.world.violation("client %d: bookmark out of place, closing: %v", c.number, closing)
	}
	if closing {
		c.from, c.store, c.seen, c.version = c.watches, c.state, c.stateSeen, ""
		c.state, c.stateSeen = nil, nil
	}
	c.follow(obj.GetResourceVersion(), false)
	c.complete(func(m moment) bool { return strconv.FormatUint(m.version, 10) <= c.version })
}

// takeChange requires the very next change that the client's selection sees.
func (c *client) takeChange(kind watch.EventType, obj stored) {
	name := obj.GetName()
	c.follow(obj.GetResourceVersion(), true)
	next, ok := c.next(name)
	if !ok {
		c.world.violation("client %d: %s of %s at %s, which did not happen or was sent before", c.number, kind, name, obj.GetResourceVersion())
		return
	}
	c.seen[name]++
	want, state := next.event(c.selector)
	version, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	switch {
	case kind != want:
		c.world.violation("client %d: %s of %s at %d instead of %s", c.number, kind, name, version, want)
	case kind == watch.Deleted && (version <= next.after || version > max(next.version, c.watches.version[c.resource])),
		kind != watch.Deleted && next.now != nil && version != next.version:
		c.world.violation("client %d: %s of %s has version %d instead of %d", c.number, kind, name, version, next.version)
	}
	state = state.DeepCopyObject().(stored)
	state.SetResourceVersion(obj.GetResourceVersion())
	if !equality.Semantic.DeepEqual(state, obj) {
		c.world.violation("client %d: %s of %s brought another object than the list had", c.number, kind, name)
	}
	if kind == watch.Deleted {
		delete(c.store, name)
		return
	}
	c.store[name] = obj
}

// next is the first change of an object after those the client had which its
// selection sees.
func (c *client) next(name string) (moment, bool) {
	timeline := c.from.timelines[c.resource][name]
	for ; c.seen[name] < len(timeline); c.seen[name]++ {
		m := timeline[c.seen[name]]
		if kind, _ := m.event(c.selector); kind != "" {
			return m, true
		}
	}
	return moment{}, false
}

// event is what a selection sees of a change.
func (m moment) event(selector fields.Selector) (watch.EventType, stored) {
	had := m.before != nil && selectedBy(selector, m.before)
	has := m.now != nil && selectedBy(selector, m.now)
	switch {
	case had && has:
		return watch.Modified, m.now
	case has:
		return watch.Added, m.now
	case had:
		return watch.Deleted, m.before
	}
	return "", nil
}

// complete requires that no change is left out which the client must have had.
func (c *client) complete(due func(moment) bool) {
	for name := range c.from.timelines[c.resource] {
		if m, ok := c.next(name); ok && due(m) {
			c.world.violation("client %d: the change of %s at %d was lost, the client is at %s", c.number, name, m.version, c.version)
		}
	}
}

// follow requires versions to rise, strictly for changes.
func (c *client) follow(version string, strictly bool) {
	was, _ := strconv.ParseUint(c.version, 10, 64)
	is, err := strconv.ParseUint(version, 10, 64)
	if err != nil || is < was || strictly && is == was {
		c.world.violation("client %d: version went from %s to %s (%v)", c.number, c.version, version, err)
	}
	c.version = version
}

// settle does what an informer does until nothing changes, and compares.
func (c *client) settle(r *replica) {
	for range 1000 {
		c.open(r)
		if c.read(1) || c.state != nil {
			continue
		}
		c.complete(func(moment) bool { return true })
		want := map[string]stored{}
		for name, obj := range c.from.present[c.resource] {
			if selectedBy(c.selector, obj) {
				want[name] = obj
			}
		}
		if !equality.Semantic.DeepEqual(want, c.store) {
			c.world.violation("client %d: its store has %d objects and differs from the truth with %d", c.number, len(c.store), len(want))
		}
		return
	}
	c.world.violation("client %d never came to rest", c.number)
}
