package active

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

// The library's handler of errors holds back whoever reports errors often, by a
// clock that it read before the bubble with another clock began: for decades.
func init() {
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(logr.Discard())
}

// fakeCluster holds the two objects and checks versions as the real one does.
type fakeCluster struct {
	mu      sync.Mutex
	version int
	lease   *coordinationv1.Lease
	slice   *discoveryv1.EndpointSlice
	writes  int
	// led are the addresses that the slice has led to, in order.
	led []string
}

func newCluster() *fakeCluster {
	return &fakeCluster{
		lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lease", ResourceVersion: "1"}},
		slice: &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "system", Name: "slice", ResourceVersion: "1"},
			AddressType: discoveryv1.AddressTypeIPv4,
		},
	}
}

// next checks a write's precondition and returns the version it gets.
func (c *fakeCluster) next(stored, given metav1.Object) (string, error) {
	if stored.GetResourceVersion() != given.GetResourceVersion() {
		return "", apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, stored.GetName(), errors.New("the object was changed"))
	}
	c.writes++
	c.version++
	return strconv.Itoa(100 + c.version), nil
}

// leading returns the one address that the slice leads to.
func (c *fakeCluster) leading() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.slice.Endpoints) == 0 {
		return ""
	}
	return c.slice.Endpoints[0].Addresses[0]
}

// state is what a test may look at while replicas write.
type state struct {
	lease  *coordinationv1.Lease
	writes int
	led    []string
}

func (c *fakeCluster) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return state{lease: c.lease.DeepCopy(), writes: c.writes, led: slices.Clone(c.led)}
}

// link is one replica's way to the cluster.
type link struct {
	cluster *fakeCluster
	mu      sync.Mutex
	// fails makes every request end without an effect, lost every reply be lost.
	fails, lost bool
	// beforeSliceWrite is called once.
	beforeSliceWrite func()
}

var errLink = errors.New("no answer")

func (l *link) cut(fails bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = fails
}

func (l *link) loseReplies(lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = lost
}

// call does something at the cluster, unless the link is cut.
func (l *link) call(ctx context.Context, do func(c *fakeCluster) error) error {
	l.mu.Lock()
	fails, lost := l.fails, l.lost
	l.mu.Unlock()
	if fails || ctx.Err() != nil {
		return errLink
	}
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	if err := do(l.cluster); err != nil || !lost {
		return err
	}
	return errLink
}

type leaseLink struct{ *link }

func (l leaseLink) Get(ctx context.Context, _ string, _ metav1.GetOptions) (found *coordinationv1.Lease, err error) {
	err = l.call(ctx, func(c *fakeCluster) error {
		if c.lease == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "lease")
		}
		found = c.lease.DeepCopy()
		return nil
	})
	return found, err
}

func (l leaseLink) Update(ctx context.Context, given *coordinationv1.Lease, _ metav1.UpdateOptions) (stored *coordinationv1.Lease, err error) {
	err = l.call(ctx, func(c *fakeCluster) error {
		version, err := c.next(c.lease, given)
		if err != nil {
			return err
		}
		c.lease = given.DeepCopy()
		c.lease.ResourceVersion = version
		stored = c.lease.DeepCopy()
		return nil
	})
	return stored, err
}

type sliceLink struct{ *link }

func (l sliceLink) Get(ctx context.Context, _ string, _ metav1.GetOptions) (found *discoveryv1.EndpointSlice, err error) {
	err = l.call(ctx, func(c *fakeCluster) error {
		found = c.slice.DeepCopy()
		return nil
	})
	return found, err
}

func (l sliceLink) Update(ctx context.Context, given *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (stored *discoveryv1.EndpointSlice, err error) {
	l.mu.Lock()
	before := l.beforeSliceWrite
	l.beforeSliceWrite = nil
	l.mu.Unlock()
	if before != nil {
		before()
	}
	err = l.call(ctx, func(c *fakeCluster) error {
		version, err := c.next(c.slice, given)
		if err != nil {
			return err
		}
		c.slice = given.DeepCopy()
		c.slice.ResourceVersion = version
		stored = c.slice.DeepCopy()
		address := ""
		if len(given.Endpoints) > 0 {
			address = given.Endpoints[0].Addresses[0]
		}
		c.led = append(c.led, address)
		return nil
	})
	return stored, err
}

// numbering is Views that only remember how they were numbered.
type numbering struct {
	mu    sync.Mutex
	given []*viewcache.Versions
}

func (n *numbering) Restart(versions *viewcache.Versions) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.given = append(n.given, versions)
}

// stamps are the stamps of all numberings, zero for a standby's.
func (n *numbering) stamps() []int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []int64
	for _, v := range n.given {
		found = append(found, v.Latest().UnixMilli())
	}
	return found
}

// process is a replica that runs.
type process struct {
	*Replica
	link  *link
	views *numbering
	kill  func()
}

const lag = 3 * time.Second

func configFor(cluster *fakeCluster, address string, views Views) (Config, *link) {
	settings := NewSettings()
	settings.Lease, settings.EndpointSlice, settings.Namespace, settings.Address = "lease", "slice", "system", address
	to := &link{cluster: cluster}
	return Config{
		Settings: settings, HostName: fmt.Sprintf("pod-%s", address),
		Leases: leaseLink{to}, Slices: sliceLink{to}, Views: views,
		Ready: func() error { return nil }, Lag: lag, Metrics: NewMetrics(prometheus.NewRegistry()),
	}, to
}

func start(t *testing.T, cluster *fakeCluster, address string) *process {
	t.Helper()
	p := &process{views: &numbering{}}
	config, to := configFor(cluster, address, p.views)
	replica, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.Replica, p.link = replica, to
	ctx, cancel := context.WithCancel(t.Context())
	go replica.Run(ctx)
	p.kill = func() {
		to.cut(true) // a dead process writes nothing, not even in passing
		cancel()
		<-replica.stopped
	}
	t.Cleanup(p.kill)
	return p
}
