package viewfeed

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

var (
	propertySeeds = flag.Int("viewfeed.seeds", 1000, "how many random histories to try")
	propertySeed  = flag.Uint64("viewfeed.seed", 0, "replay one random history and print it")
)

const (
	replicaCount = 2
	stepsMin     = 40
	stepsMore    = 120
	// maxViolations keeps the report of a broken history readable.
	maxViolations = 5
)

// counts tell that histories exercise what they are about.
type counts struct {
	steps, changes, lists, watches, events, expired, restarts, reads int
}

func (c *counts) add(o counts) {
	c.steps, c.changes, c.lists, c.watches = c.steps+o.steps, c.changes+o.changes, c.lists+o.lists, c.watches+o.watches
	c.events, c.expired, c.restarts, c.reads = c.events+o.events, c.expired+o.expired, c.restarts+o.restarts, c.reads+o.reads
}

// world is one random history: a truth, replicas that learn of it stream by
// stream, and clients that go from one replica to another.
type world struct {
	t        *testing.T
	rand     *rand.Rand
	metrics  *Metrics
	truth    *truth
	starts   time.Time
	replicas []*replica
	clients  []*client

	counts     counts
	history    []string
	violations []string
	busy       bool
}

// TestRandomHistoriesEndEqualToTheTruth interleaves input streams, live reads,
// refusals, restarts and clients at random.
func TestRandomHistoriesEndEqualToTheTruth(t *testing.T) {
	c, metrics, began := newCast(t), NewMetrics(prometheus.NewRegistry()), time.Now()
	first, last := uint64(1), uint64(*propertySeeds)
	if *propertySeed != 0 {
		first, last = *propertySeed, *propertySeed
	}
	var mu sync.Mutex
	var sum counts
	var next atomic.Uint64
	next.Store(first)
	t.Run("seeds", func(t *testing.T) {
		for worker := range min(runtime.GOMAXPROCS(0), int(last-first)+1) {
			t.Run(fmt.Sprintf("worker %d", worker+1), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; seed <= last && !t.Failed(); seed = next.Add(1) - 1 {
					made := runWorld(t, seed, c, metrics)
					mu.Lock()
					sum.add(made)
					mu.Unlock()
					if tenth := max(last/10, 5000); seed%tenth == 0 {
						fmt.Printf("viewfeed: %d of %d histories, %.0f s\n", seed, last, time.Since(began).Seconds())
					}
				}
			})
		}
	})
	fmt.Printf("viewfeed: %d histories in %.1f s: %+v, failed: %v\n", last-first+1, time.Since(began).Seconds(), sum, t.Failed())
	if *propertySeed == 0 && !t.Failed() && (sum.expired == 0 || sum.restarts == 0 || sum.reads == 0) {
		t.Error("the histories did not exercise what they are about")
	}
}

func runWorld(t *testing.T, seed uint64, c *cast, metrics *Metrics) counts {
	w := &world{rand: rand.New(rand.NewPCG(seed, 1)), metrics: metrics, truth: newTruth(c)}
	synctest.Test(t, func(t *testing.T) {
		w.t, w.starts = t, time.Now()
		w.run()
		for _, r := range w.replicas {
			r.close()
		}
		if len(w.violations) > 0 {
			t.Errorf("seed %d; replay with -viewfeed.seed=%d\n%s\nhistory:\n%s", seed, seed,
				strings.Join(w.violations, "\n"), strings.Join(w.history, "\n"))
		} else if *propertySeed != 0 {
			t.Logf("history:\n%s", strings.Join(w.history, "\n"))
		}
	})
	return w.counts
}

func (w *world) violation(format string, args ...any) {
	if len(w.violations) < maxViolations {
		text := fmt.Sprintf("step %d: ", len(w.history)) + fmt.Sprintf(format, args...)
		w.violations = append(w.violations, text)
	}
}

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%4d  ", len(w.history)+1)+fmt.Sprintf(format, args...))
}

func (w *world) run() {
	full := w.rand.IntN(4) > 0
	for i := range w.truth.cast.entities {
		if full || w.rand.IntN(2) == 0 {
			w.truth.put(&w.truth.cast.entities[i], 0)
		}
	}
	for i := range replicaCount {
		w.replicas = append(w.replicas, w.start())
		if w.rand.IntN(4) > 0 {
			w.replicas[i].settle()
		}
	}
	for i, selector := range []string{"", "status.verified=True", "status.recoverable=True"} {
		w.clients = append(w.clients, w.newClient(i+1, checkpoints, selector))
	}
	w.clients = append(w.clients, w.newClient(4, intents, ""))
	for range stepsMin + w.rand.IntN(stepsMore) {
		if len(w.violations) > 0 {
			break
		}
		w.step()
		w.counts.steps++
	}
	w.end()
	for _, client := range w.clients {
		client.breakOff()
	}
}

// start makes a new process; every stamp is above those before.
func (w *world) start() *replica {
	w.starts = w.starts.Add(time.Second)
	return w.newReplica(viewcache.NewVersions(w.starts))
}

func (w *world) step() {
	c, at := w.clients[w.rand.IntN(len(w.clients))], w.rand.IntN(len(w.replicas))
	r := w.replicas[at]
	switch n := w.rand.IntN(100); {
	case n < 57:
		w.feedStep(r, n)
	case n < 59:
		w.say("replica %d restarts", at+1)
		w.counts.restarts++
		r.close()
		w.replicas[at] = w.start()
		w.replicas[at].settle()
	case n < 60:
		w.say("two minutes pass")
		time.Sleep(2 * time.Minute)
	case n < 66:
		w.say("client %d breaks off", c.number)
		c.breakOff()
	case n < 68:
		w.say("client %d lists from replica %d", c.number, at+1)
		c.relist(r)
	case n < 82:
		w.say("client %d opens a watch at %q of replica %d", c.number, c.version, at+1)
		c.open(r)
	default:
		count := 1 + w.rand.IntN(6)
		w.say("client %d reads %d events", c.number, count)
		c.read(count)
	}
}

// feedStep is one of the things that happen without clients.
func (w *world) feedStep(r *replica, n int) {
	s := r.streams[w.rand.IntN(len(r.streams))]
	switch {
	case n < 20:
		w.say("%s", w.truth.change(w.rand))
		w.counts.changes++
	case n < 46 && r.pending() != nil:
		s = r.pending()
		w.say("the stream of %s delivers", s.store.source.kind)
		r.deliver(s)
	case n < 54 && len(r.tasks) > 0:
		i := w.rand.IntN(len(r.tasks))
		w.say("live read of %v", r.tasks[i])
		w.counts.reads++
		r.read(i)
	case n < 56:
		w.say("the stream of %s starts over", s.store.source.kind)
		s.synced = false
	case n < 57:
		w.say("%s is forbidden until its stream starts over", s.store.source.kind)
		r.refuse(s)
	}
}

// pending is a random stream with something to deliver.
func (r *replica) pending() *stream {
	first := r.world.rand.IntN(len(r.streams))
	for i := range r.streams {
		s := r.streams[(first+i)%len(r.streams)]
		if !s.synced || s.at < len(r.world.truth.streams[s.store.source.kind]) {
			return s
		}
	}
	return nil
}

// meanwhile happens between the answer to a live read and its use.
func (w *world) meanwhile(r *replica) {
	if w.busy {
		return
	}
	w.busy = true
	defer func() { w.busy = false }()
	if s := r.pending(); s != nil && w.rand.IntN(2) == 0 {
		w.say("  meanwhile the stream of %s delivers", s.store.source.kind)
		r.deliver(s)
		return
	}
	w.say("  meanwhile %s", w.truth.change(w.rand))
}

// end lets everything settle and compares: replicas with one that starts over
// the truth now, verdicts with how things were written, and stores of clients.
func (w *world) end() {
	w.say("everything settles")
	w.busy = true // the truth stands still from now on
	fresh := w.start()
	fresh.settle()
	defer fresh.close()
	for i, r := range w.replicas {
		r.settle()
		if want, got := fresh.bare(), r.bare(); !equality.Semantic.DeepEqual(want, got) {
			w.violation("replica %d (-one that starts now +it):\n%s", i+1, cmp.Diff(want, got))
		}
	}
	got, reasons := map[string]bool{}, ""
	for name, obj := range fresh.present[checkpoints] {
		verdict := meta.FindStatusCondition(obj.(*views.RetainedCheckpoint).Status.Conditions, views.ConditionVerified)
		got[name] = verdict.Status == metav1.ConditionTrue
		reasons += fmt.Sprintf("%s: %s: %s\n", name, verdict.Reason, verdict.Message)
	}
	if want := w.truth.verified(); !maps.Equal(want, got) {
		w.violation("verified checkpoints (-as written +as judged):\n%s\n%s", cmp.Diff(want, got), reasons)
	}
	for _, c := range w.clients {
		c.settle(w.replicas[w.rand.IntN(len(w.replicas))])
	}
}
