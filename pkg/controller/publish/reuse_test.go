package publish

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// election tells whose term it is. Nobody's name is everybody's term: then only
// claims and preconditions protect.
type election struct {
	mu     sync.Mutex
	holder string
}

func (e *election) take(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder = name
}

func (e *election) term(name string) *termOf { return &termOf{election: e, name: name} }

type termOf struct {
	*election
	name string
}

func (t *termOf) Check(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != "" && t.holder != t.name {
		return fencing.ErrFenced
	}
	return nil
}

func (t *termOf) Intent(ctx context.Context) (fencing.Intent, error) {
	return fencing.Intent{}, t.Check(ctx)
}

func publisherOf(api *server, e *election, name string) *Publisher {
	return New(settingsOf(api.web), api.clients(name), e.term(name), NewMetrics(noRegistry{}))
}

// publishNow stores both kinds, as a term does.
func (p *Publisher) publishNow(t testing.TB, o *checkpoint.Output) error {
	return errors.Join(p.outputNow(t, o), p.checkpointNow(t, o))
}

// TestP16ReuseWinsAgainstACollectorThatStandsStill: A, B, C and then A again, while the collector that was about to
// take A's objects stands still.
func TestP16ReuseWinsAgainstACollectorThatStandsStill(t *testing.T) {
	t.Parallel()
	points := map[string]func(r request, done bool, seen func(verb, kind string) int) bool{
		"after its list": func(r request, done bool, seen func(string, string) int) bool {
			return done && r.Verb == "list" && r.Kind == v1alpha1.KindSecret && seen("list", v1alpha1.KindSecret) == 2
		},
		"after reading references": func(r request, done bool, seen func(string, string) int) bool {
			return done && r.Verb == "list" && r.Kind == v1alpha1.KindCfg && seen("list", v1alpha1.KindCfg) == 2
		},
		"just before it deletes the checkpoint": func(r request, done bool, _ func(string, string) int) bool {
			return !done && r.Verb == "delete" && r.Kind == v1alpha1.KindCfg
		},
		"just before it deletes the file": func(r request, done bool, _ func(string, string) int) bool {
			return !done && r.Verb == "delete" && r.Kind == v1alpha1.KindMapFile
		},
		"between its delete and the retry": func(r request, done bool, seen func(string, string) int) bool {
			return !done && r.Verb == "get" && r.Kind == v1alpha1.KindMapFile && seen("delete", v1alpha1.KindMapFile) == 1
		},
	}
	for name, at := range points {
		for _, fenced := range []bool{false, true} {
			if thin && !fenced {
				continue
			}
			whose := map[bool]string{false: ", both in their term", true: ", its term over"}[fenced]
			t.Run(name+whose, func(t *testing.T) {
				api, e := newAPI(t), &election{}
				collector := publisherOf(api, e, "collector")
				for _, version := range []string{"a", "b"} {
					must(t, collector.publishNow(t, site(t, version)))
				}
				must(t, collector.outputNow(t, site(t, "c")))
				if fenced {
					e.take("collector")
				}
				mapOfA := sharedMapOf(api, "a")
				var mu sync.Mutex
				counts := map[string]int{}
				seen := func(verb, kind string) int { return counts[verb+kind] }
				stopped := false
				note := func(r request, done bool) error {
					if r.Client != "collector" {
						return nil
					}
					mu.Lock()
					if done {
						counts[r.Verb+r.Kind]++
					}
					stop := !stopped && at(r, done, seen)
					stopped = stopped || stop
					mu.Unlock()
					if stop {
						if fenced {
							e.take("other")
						}
						if err := publisherOf(api, e, "other").publishNow(t, site(t, "a")); err != nil {
							t.Errorf("publication of a: %v", err)
						}
						pointers(t, api)
					}
					return nil
				}
				var touched atomic.Bool
				api.hooks(func(r request) error {
					if r.Client == "collector" && r.Verb == "delete" && r.Name == mapOfA.name &&
						name == "between its delete and the retry" && touched.CompareAndSwap(false, true) {
						// A mere status write makes the first delete conflict.
						edit(api, mapOfA, func(o *v1alpha1.HAProxyMapFile) {
							o.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{PodName: "pod-1"}}
						})
						mu.Lock()
						counts["delete"+v1alpha1.KindMapFile]++
						mu.Unlock()
					}
					return note(r, false)
				}, func(r request) error {
					if r.writes() {
						pointers(t, api)
					}
					return note(r, true)
				})
				if err := collector.checkpointNow(t, site(t, "c")); err != nil && !errors.Is(err, fencing.ErrFenced) && !apierrors.IsConflict(err) {
					t.Errorf("the collector: %v", err)
				}
				api.hooks(nil, nil)
				if !stopped {
					t.Fatal("the collector never came to that point")
				}
				// What counts is committed, whoever came last; a settles in the end.
				pointers(t, api)
				must(t, publisherOf(api, e, "other").publishNow(t, site(t, "a")))
				if got := pointers(t, api); got[0] != site(t, "a").Checksum() {
					t.Errorf("pointers %v, want a in front", got)
				}
			})
		}
	}
}

// sharedMapOf is the map that checkpoints of that version share.
func sharedMapOf(api *server, version string) objectKey {
	for _, name := range api.names(v1alpha1.KindMapFile) {
		o := read[v1alpha1.HAProxyMapFile](api, objectKey{v1alpha1.KindMapFile, name})
		if o.Labels[v1alpha1.LabelRetainedFor] != "" && o.Spec.Entries == "host-"+version+" backend\n" {
			return objectKey{v1alpha1.KindMapFile, name}
		}
	}
	api.t.Fatalf("no shared map of %s", version)
	return objectKey{}
}

// A schedule releases parked requests one by one, as its seed says.
type schedule struct {
	t      *testing.T
	api    *server
	random *rand.Rand
	mu     sync.Mutex
	parked []chan struct{}
	// changed says that something was written since the reader looked.
	changed atomic.Bool
}

func (s *schedule) park(ctx context.Context, _ fakeapi.Call) error {
	released := make(chan struct{})
	s.mu.Lock()
	s.parked = append(s.parked, released)
	s.mu.Unlock()
	select {
	case <-released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next lets one request happen, and the reader look.
func (s *schedule) next() (released bool) {
	synctest.Wait()
	s.mu.Lock()
	if n := len(s.parked); n > 0 {
		i := s.random.IntN(n)
		close(s.parked[i])
		s.parked = slices.Delete(s.parked, i, i+1)
		released = true
	}
	s.mu.Unlock()
	if !released {
		time.Sleep(10 * time.Millisecond) // somebody backs off
	}
	synctest.Wait()
	if s.changed.Swap(false) {
		pointers(s.t, s.api)
	}
	return released
}

func TestP16ARandomHistoryOfTwoTermsKeepsEveryPointerComplete(t *testing.T) {
	t.Parallel()
	steps := 2000
	if thin {
		steps = 500
	}
	randomHistory(t, steps, 16)
}

func randomHistory(t *testing.T, steps int, seed uint64) {
	versions := []*checkpoint.Output{site(t, "a"), site(t, "b"), site(t, "c")}
	synctest.Test(t, func(t *testing.T) {
		api, e := newAPI(t), &election{holder: "one"}
		s := &schedule{t: t, api: api, random: rand.New(rand.NewPCG(seed, seed))}
		api.Observe(func(fakeapi.Change) { s.changed.Store(true) })
		lose := rand.New(rand.NewPCG(seed, 0))
		var loseMu sync.Mutex
		api.Hooks(fakeapi.Hooks{Before: s.park, After: func(_ context.Context, c fakeapi.Call, _ int) error {
			loseMu.Lock()
			defer loseMu.Unlock()
			if c.Writes() && lose.IntN(30) == 0 {
				return errDown // the write happened, its reply is lost
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var published, fenced atomic.Int64
		for i, name := range []string{"one", "two"} {
			random := rand.New(rand.NewPCG(seed, uint64(i)+1))
			running.Go(func() {
				for ctx.Err() == nil {
					if e.term(name).Check(ctx) != nil {
						time.Sleep(time.Second)
						continue
					}
					p := publisherOf(api, e, name) // a new term knows nothing
					for ctx.Err() == nil {
						err := p.publishNow(t, versions[random.IntN(len(versions))])
						if err == nil {
							published.Add(1)
						}
						if errors.Is(err, fencing.ErrFenced) {
							fenced.Add(1)
							break
						}
					}
				}
			})
		}
		for step := 0; step < steps; {
			if s.random.IntN(60) == 0 {
				e.take([]string{"one", "two"}[s.random.IntN(2)])
			}
			if s.next() {
				step++
			}
			if t.Failed() {
				t.Logf("seed %d, step %d", seed, step)
				break
			}
		}
		cancel()
		api.hooks(nil, nil)
		for s.next() {
		}
		running.Wait()
		if published.Load() < int64(steps/200) || fenced.Load() < 1 {
			t.Errorf("%d publications and %d fenced terms prove little", published.Load(), fenced.Load())
		}
		t.Logf("%d publications, %d terms that were fenced", published.Load(), fenced.Load())
		e.take("last")
		last := publisherOf(api, e, "last")
		must(t, last.publishNow(t, versions[0]))
		if got := pointers(t, api); got[0] != versions[0].Checksum() {
			t.Errorf("pointers %v, want a in front", got)
		}
		if outputs, maps := len(api.names(v1alpha1.KindCfg)), len(api.names(v1alpha1.KindMapFile)); outputs != 3 || maps != 3 {
			t.Errorf("%d outputs and %d maps are left, want 3 and 3", outputs, maps)
		}
	})
}
