package viewcache

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

var (
	seeds    = flag.Int("viewcache.seeds", 3000, "how many random histories to try")
	oneSeed  = flag.Uint64("viewcache.seed", 0, "replay one random history")
	stepsMax = 150
)

// world is one random history: a truth, a server that restarts, and clients
// that list, watch, break off and resume.
type world struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	server  *thingCache
	truth   map[string]string
	starts  time.Time
	clients []*client
}

// client keeps what an informer would: objects, and the version to resume from.
type client struct {
	world    *world
	match    Match
	selected func(name, value string) bool
	store    map[string]string
	version  string
	watch    watch.Interface
	// state collects a streaming list until its bookmark.
	state map[string]string
}

func TestClientsEndEqualToTheTruth(t *testing.T) {
	if *oneSeed != 0 {
		runHistory(t, *oneSeed)
		return
	}
	for seed := range uint64(*seeds) {
		runHistory(t, seed+1)
		if t.Failed() {
			t.Fatalf("failed at seed %d; replay with -viewcache.seed=%d", seed+1, seed+1)
		}
	}
}

func runHistory(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), truth: map[string]string{}, starts: start2026}
		w.restart()
		for i := range 4 {
			w.clients = append(w.clients, w.newClient(i))
		}
		for range 20 + w.rand.IntN(stepsMax) {
			w.step()
		}
		for _, c := range w.clients {
			c.settle()
			if diff := cmp.Diff(c.expected(), c.store); diff != "" {
				t.Errorf("seed %d: store of a client (-truth +store):\n%s", seed, diff)
			}
			c.breakOff()
		}
		w.server.Close()
	})
}

func (w *world) newClient(i int) *client {
	c := &client{world: w, store: map[string]string{}, selected: func(string, string) bool { return true }}
	if i%2 == 1 {
		c.match = matchLabel(w.t, "", "value in (0,1)")
		c.selected = func(_, value string) bool { return value == "0" || value == "1" }
	}
	return c
}

// restart makes a new process with the same truth, which clients then meet
// with versions of the old one.
func (w *world) restart() {
	if w.server != nil {
		w.server.Close()
	}
	w.starts = w.starts.Add(time.Second)
	w.server = newThings(Options[thing]{Versions: NewVersions(w.starts), HistoryLimit: 5})
	for name, value := range w.truth {
		w.server.Set(newThing("a", name, value))
	}
}

func (w *world) step() {
	c := w.clients[w.rand.IntN(len(w.clients))]
	switch n := w.rand.IntN(100); {
	case n < 45:
		w.change()
	case n < 47:
		w.restart()
	case n < 55:
		c.breakOff()
	case n < 58:
		c.relist()
	case n < 75:
		c.open()
	default:
		c.read(1 + w.rand.IntN(5))
	}
}

func (w *world) change() {
	name := fmt.Sprintf("x%d", w.rand.IntN(4))
	if w.rand.IntN(4) == 0 {
		delete(w.truth, name)
		w.server.Delete("a", name)
		return
	}
	value := strconv.Itoa(w.rand.IntN(4))
	w.truth[name] = value
	w.server.Set(newThing("a", name, value))
}

func (c *client) expected() map[string]string {
	want := map[string]string{}
	for name, value := range c.world.truth {
		if c.selected(name, value) {
			want[name] = value
		}
	}
	return want
}

func (c *client) breakOff() {
	if c.watch != nil {
		c.watch.Stop()
		for range c.watch.ResultChan() { // the rest is lost, as on a broken connection
		}
	}
	c.watch, c.state = nil, nil
}

func (c *client) relist() {
	c.breakOff()
	items, version, err := c.world.server.List(c.match, nil)
	if err != nil {
		c.world.t.Fatalf("seed %d: list: %v", c.world.seed, err)
	}
	c.store, c.version = map[string]string{}, version
	for i := range items {
		c.store[items[i].Name] = items[i].Labels["value"]
	}
}

// open resumes where the client stopped, in one of the ways clients have.
func (c *client) open() {
	if c.watch != nil {
		return
	}
	opts := &metainternalversion.ListOptions{ResourceVersion: c.version, AllowWatchBookmarks: true}
	if c.version == "" || c.world.rand.IntN(3) == 0 {
		opts = streamingList(c.version)
		c.state = map[string]string{}
	}
	w, err := c.world.server.Watch(c.world.t.Context(), c.match, opts)
	if err != nil {
		c.world.t.Fatalf("seed %d: watch: %v", c.world.seed, err)
	}
	c.watch = w
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
	if e.Type == watch.Error {
		err := apierrors.FromObject(e.Object)
		if !apierrors.IsResourceExpired(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			c.world.t.Errorf("seed %d: unexpected error %v", c.world.seed, err)
		}
		c.breakOff()
		c.version = ""
		return
	}
	obj := e.Object.(*thing)
	if c.state != nil {
		c.takeState(e, obj)
		return
	}
	before, had := c.store[obj.Name]
	switch value := obj.Labels["value"]; e.Type {
	case watch.Added, watch.Modified:
		if had != (e.Type == watch.Modified) {
			c.world.t.Errorf("seed %d: %s of %s, which was there: %v", c.world.seed, e.Type, obj.Name, had)
		}
		c.store[obj.Name] = value
	case watch.Deleted:
		if !had || before != value {
			c.world.t.Errorf("seed %d: deletion of %s=%s, known as %q", c.world.seed, obj.Name, value, before)
		}
		delete(c.store, obj.Name)
	}
	c.follow(obj.ResourceVersion)
}

func (c *client) takeState(e watch.Event, obj *thing) {
	if e.Type == watch.Added {
		c.state[obj.Name] = obj.Labels["value"]
		return
	}
	if e.Type != watch.Bookmark || obj.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		c.world.t.Errorf("seed %d: %s before the closing bookmark", c.world.seed, e.Type)
	}
	c.store, c.state = c.state, nil
	c.version = obj.ResourceVersion
}

// follow requires versions to rise, but for bookmarks of where the client is.
func (c *client) follow(version string) {
	was, _ := parseVersion(c.version)
	is, err := parseVersion(version)
	if err != nil || is < was {
		c.world.t.Errorf("seed %d: version went from %s to %s (%v)", c.world.seed, c.version, version, err)
	}
	c.version = version
}

// settle lets the client do what an informer does until nothing changes.
func (c *client) settle() {
	for range 1000 {
		c.open()
		if !c.read(1) && c.state == nil {
			return
		}
	}
	c.world.t.Errorf("seed %d: a client never came to rest", c.world.seed)
}

// TestListAndWatchWithRacingWrites is for the race detector: no bubble, real
// goroutines.
func TestListAndWatchWithRacingWrites(t *testing.T) {
	c := newThings(Options[thing]{})
	done := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				c.Set(newThing("a", "last", "0"))
				return
			default:
				c.Set(newThing("a", fmt.Sprintf("x%d", i%5), strconv.Itoa(i)))
				if i%7 == 0 {
					c.Delete("a", fmt.Sprintf("x%d", (i+2)%5))
				}
			}
		}
	})
	var reading sync.WaitGroup
	for range 8 {
		reading.Go(func() { followRacing(t, c, 125) })
	}
	reading.Wait()
	close(done)
	writing.Wait()
	c.Close()
}

// followRacing lists, watches for a few events, and compares with what must
// follow from them.
func followRacing(t *testing.T, c *thingCache, rounds int) {
	for range rounds {
		items, version, err := c.List(Match{}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		known := map[string]string{}
		for i := range items {
			known[items[i].Name] = items[i].Labels["value"]
		}
		w, err := c.Watch(t.Context(), Match{}, &metainternalversion.ListOptions{ResourceVersion: version})
		if err != nil {
			t.Error(err)
			return
		}
		for range 20 {
			e := <-w.ResultChan()
			if e.Type == watch.Error {
				break
			}
			obj := e.Object.(*thing)
			if _, had := known[obj.Name]; had != (e.Type != watch.Added) {
				t.Errorf("%s of %s, which was there: %v", e.Type, obj.Name, had)
			}
			if known[obj.Name] = obj.Labels["value"]; e.Type == watch.Deleted {
				delete(known, obj.Name)
			}
		}
		w.Stop()
	}
}
