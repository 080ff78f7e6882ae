package active

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

const (
	// checkPeriod is how often the active replica looks whether the EndpointSlice
	// still leads to it, and a former one whether it does no longer.
	checkPeriod = time.Second
	// hurry is the period while something is being waited for.
	hurry = 200 * time.Millisecond
)

// Views are what is served, numbered by whichever counter they were given last.
type Views interface {
	Restart(versions *viewcache.Versions)
}

// Config is what a replica needs.
type Config struct {
	Settings
	// HostName tells replicas apart in the Lease, for people.
	HostName string
	Leases   LeaseClient
	Slices   SliceClient
	Views    Views
	// Ready returns nil once this replica has answers. It does not try for the
	// Lease before.
	Ready func() error
	// Lag is how long requests may still arrive after the EndpointSlice leads
	// elsewhere.
	Lag     time.Duration
	Metrics *Metrics
}

// role is what a replica is at a moment.
type role int

const (
	// standby has never been active, or not since the EndpointSlice led elsewhere.
	standby role = iota
	// leading holds the Lease, as far as it knows.
	leading
	// former has lost or released the Lease, and may still be sent requests.
	former
)

// Replica is one of several API servers.
type Replica struct {
	Config
	lock    *lock
	elector *leaderelection.LeaderElector

	// stopping is closed by the first HandOver, stopped when Run has returned.
	stopping, stopped chan struct{}
	stopOnce          sync.Once
	// wake makes the keeper look at once.
	wake chan struct{}

	mu   sync.Mutex
	role role
	// lost is when the last term ended, and left when the EndpointSlice was first
	// seen to lead elsewhere after that.
	lost, left time.Time
	// numbered is the counter that the views were restarted with last.
	numbered *viewcache.Versions
}

// New returns a standby. Views are numbered as a standby's from now on.
func New(config Config) (*Replica, error) {
	r := &Replica{
		Config: config, stopping: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	r.lock = &lock{
		client: config.Leases, namespace: config.Namespace, name: config.Lease,
		// A restarted container of the same pod is another holder.
		identity: config.HostName + "_" + uuid.NewString(), began: r.begin,
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: r.lock, Name: config.Lease,
		LeaseDuration: config.LeaseDuration, RenewDeadline: config.RenewDeadline, RetryPeriod: config.RetryPeriod,
		// The elector's release may clear the Lease of a successor.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			// The lock has seen to it already, within the write.
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("electing the active replica: %w", err)
	}
	r.elector = elector
	r.numbered = viewcache.NewStandbyVersions()
	r.Views.Restart(r.numbered)
	return r, nil
}

// Run takes part until ctx ends or HandOver is called. It can be called once.
func (r *Replica) Run(ctx context.Context) {
	defer close(r.stopped)
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.FromContext(ctx).WithName("active")))
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-r.stopping:
		case <-ctx.Done():
		}
		cancel()
	})
	running.Go(func() { r.campaign(ctx) })
	running.Go(func() { r.keep(ctx) })
	running.Wait()
}

// campaign tries for the Lease again and again, once there are answers to give.
func (r *Replica) campaign(ctx context.Context) {
	for r.Ready() != nil {
		if !pause(ctx, hurry) {
			return
		}
	}
	for ctx.Err() == nil {
		r.elector.Run(ctx)
		r.end(ctx)
	}
}

// begin makes this replica the active one. It runs within the write that took
// the Lease, so nothing is ever served in between.
func (r *Replica) begin(versions *viewcache.Versions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.role = leading
	if r.numbered != versions {
		r.numbered = versions
		r.Views.Restart(versions)
	}
	r.Metrics.Active.Set(1)
	r.Metrics.Takeovers.Inc()
	r.nudge()
}

func (r *Replica) end(ctx context.Context) {
	r.lock.ended()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.role != leading {
		return
	}
	r.role, r.lost, r.left = former, time.Now(), time.Time{}
	r.Metrics.Active.Set(0)
	klog.FromContext(ctx).Info("Stopped being the active replica")
	r.nudge()
}

// leave notes that the EndpointSlice leads elsewhere, and once that has lasted
// makes the former active replica a standby to its clients. It reports the latter.
func (r *Replica) leave(lasting time.Duration) (retired bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.role != former {
		return false
	}
	if r.left.IsZero() {
		r.left = time.Now()
	}
	if time.Since(r.left) < lasting {
		return false
	}
	r.role = standby
	r.numbered = viewcache.NewStandbyVersions()
	r.Views.Restart(r.numbered)
	return true
}

// Leaving tells whether a client that is connected here should dial anew, because
// the EndpointSlice leads elsewhere.
func (r *Replica) Leaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.role == standby || r.role == former && !r.left.IsZero()
}

func (r *Replica) nudge() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// pause waits, and reports false if ctx ended meanwhile.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
