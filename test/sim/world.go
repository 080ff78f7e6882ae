package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

const (
	namespace    = "edge"
	templateName = "web"
	electionName = templateName + "-leader"
	agentPort    = 9444
)

var (
	retainedName = checkpoint.RetainedStateLeaseName(templateName)
	podLabels    = map[string]string{"app": "proxy"}
)

// world is everything of one schedule: server, network, fleet, processes.
type world struct {
	t       testing.TB
	server  *fakeapi.Server
	network *network
	core    kubernetes.Interface
	haptic  versioned.Interface
	verbose bool

	mu      sync.Mutex
	history history
	fleet   map[string]*agent // by address
	fleetMu sync.Mutex
	pods    int
	// processes are all that were ever started, in order.
	processes []*process
	starts    map[string]int
	inputs    inputs
	repaired  time.Time // when the inputs became good again
	profile   profile
	// step counts decisions.
	step       int
	violations []string
	checkers   []checker
	leases     *leaseHistory
	pointers   *pointerChecker
	drains     *drainChecker
	counter    *counter
}

func newWorld(t testing.TB, verbose bool) *world {
	w := &world{
		t: t, server: fakeapi.New(fakeapi.Options{TrackFromApply: true}), network: newNetwork(), verbose: verbose,
		history: history{start: time.Now()}, fleet: map[string]*agent{}, starts: map[string]int{},
	}
	w.core = kubernetes.NewForConfigOrDie(w.server.Config(fakeapi.Admin))
	w.haptic = versioned.NewForConfigOrDie(w.server.Config(fakeapi.Admin))
	w.server.Hooks(fakeapi.Hooks{Event: w.event})
	w.checkers = newCheckers(w)
	w.server.Observe(w.changed)
	w.network.sent = w.sentRequest
	w.network.replied = w.repliedRequest
	return w
}

// event lets a watch event wait on the network.
func (w *world) event(ctx context.Context, c fakeapi.Call, kind, name string) error {
	key := fmt.Sprintf("%s event %s %s %s", c.Client, c.Resource, kind, name)
	if w.network.park(ctx, &item{key: key, process: c.Client, class: classEvent}) != fateDeliver {
		return errNetwork
	}
	return nil
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.add(format, args...)
}

// logger writes what a process logs into the history.
func (w *world) logger(process string) logr.Logger {
	if !w.verbose {
		return logr.Discard()
	}
	return funcr.New(func(_, args string) { w.note("%s log %s", process, args) }, funcr.Options{Verbosity: 2})
}

// violate reports a broken invariant.
func (w *world) violate(invariant, format string, args ...any) {
	text := invariant + ": " + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) < 20 {
		w.violations = append(w.violations, text)
	}
	w.history.add("VIOLATION %s", text)
}

func (w *world) broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

// changed shows a committed change to the checkers. It runs under the store's
// lock.
func (w *world) changed(c fakeapi.Change) {
	if w.verbose && c.GVR.Resource != "events" {
		w.note("   stored %s %s %s by %s%s", c.Type, c.GVR.Resource, c.Name, c.Client, leaseText(c))
	}
	for _, check := range w.checkers {
		check.changed(c)
	}
}

func leaseText(c fakeapi.Change) string {
	if c.GVR.Resource != "leases" || c.New == nil {
		return ""
	}
	lease := decode[coordinationv1.Lease](c.New)
	if c.Name == electionName {
		l := record.ElectionLease(lease)
		return fmt.Sprintf(": holder %q epoch %d", l.Holder, l.Epoch)
	}
	r := record.RetainedLease(lease).Intent.Intent
	return fmt.Sprintf(": epoch %d plan %s holder %s active %v", r.Epoch, r.PlanID, r.Holder, r.Active != nil)
}

func (w *world) sentRequest(i *item) {
	for _, check := range w.checkers {
		check.sent(i)
	}
}

func (w *world) repliedRequest(process, target string, body []byte) {
	for _, check := range w.checkers {
		check.replied(process, target, body)
	}
}

func (w *world) begun(process, pod string, m *api.Manifest) {
	for _, check := range w.checkers {
		check.begun(process, pod, m)
	}
}

func (w *world) loaded(l load) {
	w.note("   pod %s loads %s with token %d/%d, was %s", l.pod, l.plan, l.token.LeaderEpoch, l.token.RenderSeq, l.previous)
	for _, check := range w.checkers {
		check.loaded(l)
	}
}

func (w *world) acknowledged(process string, m *api.Manifest) {
	for _, check := range w.checkers {
		check.acknowledged(process, m)
	}
}

func (w *world) outranked(process string, m *api.Manifest) {
	for _, check := range w.checkers {
		check.outranked(process, m)
	}
}

// addPod adds a proxy pod under the bootstrap configuration.
func (w *world) addPod() {
	w.mu.Lock()
	w.pods++
	n := w.pods
	w.mu.Unlock()
	name, ip := fmt.Sprintf("p%d", n), fmt.Sprintf("10.244.0.%d", n)
	pod, err := w.core.CoreV1().Pods(namespace).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: podLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "haproxy", Image: "haproxy"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	a := newAgent(name, string(pod.UID), fmt.Sprintf("%s:%d", ip, agentPort), &w.fleetMu)
	a.pace, a.loaded = w.profile.pace, w.loaded
	w.mu.Lock()
	w.fleet[a.address] = a
	w.mu.Unlock()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip}
	_, err = w.core.CoreV1().Pods(namespace).UpdateStatus(w.t.Context(), pod, metav1.UpdateOptions{})
	w.must(err)
}

// removePod takes a pod and its agent away at once.
func (w *world) removePod(name string) {
	w.mu.Lock()
	for address, a := range w.fleet {
		if a.name == name {
			delete(w.fleet, address)
		}
	}
	w.mu.Unlock()
	w.must(w.core.CoreV1().Pods(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

func (w *world) agentAt(address string) *agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fleet[address]
}

// proxies are the pods of the fleet, by name.
func (w *world) proxies() []*agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*agent, 0, len(w.fleet))
	for _, a := range w.fleet {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *agent) int { return strings.Compare(a.name, b.name) })
	return all
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("simulated world: %v", err)
	}
}
