package recovery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	hapticfake "github.com/holdfast-project/holdfast/generated/clientset/versioned/fake"
	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// world is everything around a Recovery. It checks what the real things check:
// the term its fence and intent, an agent its phase.
type world struct {
	t *testing.T

	mu       sync.Mutex
	pods     map[string]*pod // by UID
	excluded []Excluded

	epoch    uint64
	fenced   bool
	intent   fencing.Intent
	leaseErr error
	// activations are the marks written to the Lease.
	activations []*fencing.Active
	activateErr error
	reclaimErr  error
	announced   []uint64

	store   *hookedStore
	verdict Verdict
	gateErr error
	gated   int
	// atGate runs while the gate works.
	atGate func()

	events []string
	health string
}

// pod is one pod's agent.
type pod struct {
	Pod
	state *api.State
	err   error
	// delay is how long an apply takes.
	delay time.Duration
	// end is how an apply ends; nil takes the output.
	end error
	// conflicts are applies that meet a conflict first.
	conflicts int
	reads     int
	guards    int
	applies   int
	// received is the output that the pod was given last.
	received *checkpoint.Output
	// beforeApply runs between the guard and the agent's own check.
	beforeApply func()
	// atGuard runs ahead of each guard.
	atGuard func()
}

// newWorld has the checkpoints promoted, newest first, the newest as intent, and
// pods of which those named old run it and those named new have nothing.
func newWorld(t *testing.T, promoted ...*stored) *world {
	t.Helper()
	w := &world{t: t, pods: map[string]*pod{}, epoch: 5, verdict: Verdict{Outcome: Valid, Version: "2.6.12"}}
	objects := []runtime.Object{ordinary(promoted...)}
	secrets := []runtime.Object{}
	seen := map[string]bool{}
	for _, s := range promoted {
		objects = append(objects, s.checkpoint)
		for _, child := range s.children {
			if secret, ok := child.(*corev1.Secret); ok {
				if !seen[secret.Name] {
					secrets = append(secrets, secret)
				}
				seen[secret.Name] = true
				continue
			}
			if m, ok := child.(interface{ GetName() string }); ok && !seen[m.GetName()] {
				objects = append(objects, child)
				seen[m.GetName()] = true
			}
		}
	}
	w.store = &hookedStore{ClientStore: NewClientStore(hapticfake.NewSimpleClientset(objects...), corefake.NewSimpleClientset(secrets...), web)}
	if len(promoted) > 0 {
		w.intent = intentFor(promoted[0].output)
	}
	return w
}

func (w *world) add(name string, state *api.State) *pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &pod{Pod: Pod{Name: name, UID: name + "-uid", Address: name + ":9444", Incarnation: "1"}, state: state}
	w.pods[p.UID] = p
	return p
}

func (w *world) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, name+"-uid")
}

// with changes or reads the world.
func (w *world) with(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) Announce(_ context.Context, epoch uint64) []uint64 {
	w.with(func() { w.announced = append(w.announced, epoch) })
	return nil
}

func (w *world) check() error {
	switch {
	case w.fenced:
		return fmt.Errorf("check the term: %w", fencing.ErrFenced)
	case w.leaseErr != nil:
		return w.leaseErr
	}
	return nil
}

func (w *world) Intent(context.Context) (fencing.Intent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.intent, w.check()
}

func (w *world) CheckIntent(_ context.Context, planID, checksum string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.check(); err != nil {
		return err
	}
	if !w.intent.Names(planID, checksum) {
		return fmt.Errorf("check: %w", fencing.ErrSuperseded)
	}
	return nil
}

func (w *world) Activate(_ context.Context, active *fencing.Active) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.check(); err != nil {
		return err
	}
	if w.activateErr != nil {
		return w.activateErr
	}
	w.activations = append(w.activations, active)
	w.intent.Active = active
	return nil
}

func (w *world) Reclaim(_ context.Context, floor uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reclaimErr != nil {
		return w.reclaimErr
	}
	w.epoch = max(w.epoch, floor+1)
	return nil
}

func (w *world) Epoch() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epoch
}

func (w *world) Check(ctx context.Context, _ *checkpoint.Output) (Verdict, error) {
	if w.atGate != nil {
		w.atGate()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gated++
	if err := ctx.Err(); err != nil {
		return Verdict{}, err
	}
	return w.verdict, w.gateErr
}

func (w *world) Event(reason, note string) {
	w.with(func() { w.events = append(w.events, reason+": "+note) })
}

func (w *world) Health(text string) { w.with(func() { w.health = text }) }

func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// term is a Recovery at work.
type term struct {
	*Recovery
	metrics *Metrics
	end     context.CancelFunc
	ended   chan struct{}
}

func (w *world) begin() *term {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	metrics := NewMetrics(prometheus.NewRegistry())
	x := &term{metrics: metrics, end: cancel, ended: make(chan struct{}), Recovery: New(Settings{Template: web}, Parts{
		Term: w, Fleet: w, Agents: w, Store: w.store, Gate: w, Sink: w,
	}, metrics)}
	go func() {
		defer close(x.ended)
		x.Run(ctx)
	}()
	return x
}

func (x *term) stop() {
	x.end()
	<-x.ended
}

func (x *term) gauge() float64 { return testutil.ToFloat64(x.metrics.Active) }

// during runs a test in a bubble with virtual time, in one term that is blocked.
func (w *world) during(t *testing.T, test func(x *term)) {
	t.Helper()
	x := w.begin()
	x.Blocked("RenderFailed", "line 3: missing key")
	test(x)
	w.quiet()
	x.stop()
	synctest.Wait()
}

// pass lets time go by. The locks order what the test read before it ahead of
// what happens now.
func (w *world) pass(d time.Duration) {
	w.quiet()
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) quiet() {
	w.with(func() {})
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
}

// replaceOrdinary is another publisher's promotion.
func replaceOrdinary(w *world, next *v1alpha1.HAProxyCfg) error {
	_, err := w.store.haptic.HapticV1alpha1().HAProxyCfgs(web.Namespace).UpdateStatus(context.Background(), next, metav1.UpdateOptions{})
	return err
}
