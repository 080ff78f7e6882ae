package active

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

var (
	rounds   = flag.Int("active.rounds", 30, "how many random lives of three replicas to try")
	oneRound = flag.Uint64("active.round", 0, "replay one of them")
)

type intents = viewcache.Cache[views.DeploymentIntent, *views.DeploymentIntent]

// server is one pod: a process of it runs, with views of its own.
type server struct {
	address string
	*process

	mu    sync.Mutex
	cache *intents
}

// serving returns what clients that reach the pod are answered from.
func (s *server) serving() *intents {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache
}

func (s *server) serve(cache *intents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = cache
}

// life is three pods over one truth, a slice, and clients that are sent to where
// it leads, but for some requests that go to any pod, as in a hand-over.
type life struct {
	t       *testing.T
	rand    *rand.Rand
	cluster *fakeCluster
	truth   map[string]string
	servers []*server
	// astray is how many of a hundred requests go to any pod.
	astray atomic.Int32
}

// TestP4eClientsOfSeveralReplicasEndEqualToTheTruth: informers that list at one
// replica and watch at another, over takeovers, hand-overs, lost links and clocks
// that are wrong, end with what is true.
func TestP4eClientsOfSeveralReplicasEndEqualToTheTruth(t *testing.T) {
	if *oneRound != 0 {
		live(t, *oneRound)
		return
	}
	for round := range uint64(*rounds) {
		live(t, round+1)
		if t.Failed() {
			t.Fatalf("failed in round %d; replay with -active.round=%d", round+1, round+1)
		}
	}
}

func live(t *testing.T, round uint64) {
	synctest.Test(t, func(t *testing.T) {
		l := &life{t: t, rand: rand.New(rand.NewPCG(round, 2)), cluster: newCluster(), truth: map[string]string{}}
		l.astray.Store([]int32{0, 10, 100}[round%3])
		for i := range 3 {
			s := &server{address: fmt.Sprintf("10.0.0.%d", i+1)}
			l.servers = append(l.servers, s)
			l.boot(s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stores := []cache.Store{l.informer(ctx, true), l.informer(ctx, false)}
		for range 15 + l.rand.IntN(15) {
			l.step()
			time.Sleep(time.Duration(l.rand.IntN(3000)) * time.Millisecond)
		}
		l.astray.Store(0)
		until(t, "a living replica is active", func() bool { return l.led() != nil && !l.led().Leaving() })
		began := time.Now()
		for _, store := range stores {
			// A reflector's back-off is up to 30 s, doubled by chance.
			for !cmp.Equal(l.truth, stored(store)) && time.Since(began) < 2*enough {
				time.Sleep(100 * time.Millisecond)
			}
			if diff := cmp.Diff(l.truth, stored(store)); diff != "" {
				t.Errorf("round %d: store (-truth +store):\n%s", round, diff)
			}
		}
		cancel()
		for _, s := range l.servers {
			s.kill()
			s.cache.Close()
		}
	})
}

func stored(store cache.Store) map[string]string {
	got := map[string]string{}
	for _, item := range store.List() {
		intent := item.(*views.DeploymentIntent)
		got[intent.Name] = intent.Status.Template.Name
	}
	return got
}

// boot starts a pod's process, after the one before is dead.
func (l *life) boot(s *server) {
	if s.process != nil {
		s.kill()
		s.cache.Close()
	}
	started := viewcache.New[views.DeploymentIntent](viewcache.Options[views.DeploymentIntent]{
		Versions: viewcache.NewStandbyVersions(), HistoryLimit: 4,
	})
	for name, value := range l.truth {
		started.Set(newIntent(name, value))
	}
	s.serve(started)
	config, to := configFor(l.cluster, s.address, s.cache)
	replica, err := New(config)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	go replica.Run(ctx)
	s.process = &process{Replica: replica, link: to, kill: func() { to.cut(true); cancel(); <-replica.stopped }}
}

func (l *life) step() {
	s := l.servers[l.rand.IntN(len(l.servers))]
	switch n := l.rand.IntN(20); {
	case n < 12:
		l.change()
	case n < 14:
		l.boot(s)
	case n < 16:
		s.HandOver(l.t.Context())
		l.boot(s)
	case n < 18:
		s.link.cut(true)
		time.Sleep(time.Duration(l.rand.IntN(8000)) * time.Millisecond)
		s.link.cut(false)
	default:
		// Whoever is next finds a stamp that its clock has not reached.
		l.cluster.mu.Lock()
		defer l.cluster.mu.Unlock()
		setStamp(l.cluster.lease, time.Now().Add(time.Duration(l.rand.IntN(1000))*time.Hour))
		l.cluster.lease.ResourceVersion += "0"
	}
}

func (l *life) change() {
	name, value := fmt.Sprintf("x%d", l.rand.IntN(4)), strconv.Itoa(l.rand.IntN(5))
	if l.rand.IntN(4) == 0 {
		delete(l.truth, name)
		for _, s := range l.servers {
			s.cache.Delete("edge", name)
		}
		return
	}
	l.truth[name] = value
	for _, s := range l.servers {
		s.cache.Set(newIntent(name, value))
	}
}

func newIntent(name, value string) *views.DeploymentIntent {
	intent := &views.DeploymentIntent{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: name}}
	intent.Status.Template.Name = value
	return intent
}

// led returns the server that the slice leads to.
func (l *life) led() *server {
	for _, s := range l.servers {
		if s.address == l.cluster.leading() {
			return s
		}
	}
	return nil
}

// route chooses where a request goes.
func (l *life) route() *intents {
	s := l.led()
	if s == nil || rand.IntN(100) < int(l.astray.Load()) {
		s = l.servers[rand.IntN(len(l.servers))]
	}
	return s.serving()
}

// informer runs a reflector, of a client that streams its lists or of an old one.
func (l *life) informer(ctx context.Context, streams bool) cache.Store {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	lw := listWatch{life: l, old: !streams}
	go cache.NewReflectorWithOptions(lw, &views.DeploymentIntent{}, store, cache.ReflectorOptions{}).Run(ctx.Done())
	return store
}

// listWatch asks whichever replica each request is led to.
type listWatch struct {
	life *life
	old  bool
}

// IsWatchListSemanticsUnSupported tells the reflector to list and watch as clients
// did before lists could be streamed.
func (w listWatch) IsWatchListSemanticsUnSupported() bool { return w.old }

func (w listWatch) List(opts metav1.ListOptions) (runtime.Object, error) {
	items, version, err := w.life.route().List(viewcache.Match{}, internal(opts))
	if err != nil {
		return nil, err
	}
	return &views.DeploymentIntentList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}, nil
}

func (w listWatch) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return w.life.route().Watch(context.Background(), viewcache.Match{}, internal(opts))
}

func internal(opts metav1.ListOptions) *metainternalversion.ListOptions {
	return &metainternalversion.ListOptions{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		AllowWatchBookmarks: opts.AllowWatchBookmarks, SendInitialEvents: opts.SendInitialEvents,
	}
}
