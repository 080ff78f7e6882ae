package active

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

// LeaseClient is what is needed of the Leases of one namespace.
type LeaseClient interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// lock is the Lease as the elector writes it. Unlike client-go's own lock it
// records the stamp in the very write that takes or renews the Lease, so that
// there is no moment in which a term has begun whose stamp nobody knows, and no
// second writer whose conflicts would cost renewals.
//
// It is used by one goroutine at a time: the elector's, then whoever waited for
// that to end.
type lock struct {
	client          LeaseClient
	namespace, name string
	identity        string
	// began is called within the write that took the Lease, with the versions of
	// the term, which are those of the last one if nobody came in between.
	began func(*viewcache.Versions)

	lease *coordinationv1.Lease
	// leading is true from the write that took the Lease until the elector ends.
	leading bool
	// versions are those of the present term or of the last one, and recorded is
	// the stamp that was last stored for them.
	versions *viewcache.Versions
	recorded time.Time
}

var _ resourcelock.Interface = (*lock)(nil)

var errNotCreated = errors.New("the Lease does not exist, and comes with the manifests")

// Get reads the record for the elector.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	lease, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the Lease of the active replica: %w", err)
	}
	l.lease = lease
	found := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	raw, err := json.Marshal(found)
	return found, raw, err
}

// Create refuses: the Role grants no creation.
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return errNotCreated }

// Update stores the elector's next record and the stamp that belongs to it.
func (l *lock) Update(ctx context.Context, next resourcelock.LeaderElectionRecord) error {
	if l.lease == nil {
		return errNotCreated
	}
	changed := l.lease.DeepCopy()
	changed.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&next)
	versions := l.versions
	if !l.leading {
		versions = l.termOver(l.lease, time.Now())
	}
	stamp := l.stampFor(versions)
	setStamp(changed, stamp)
	stored, err := l.client.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the Lease of the active replica: %w", err)
	}
	l.lease, l.versions, l.recorded = stored, versions, stamp
	if !l.leading {
		l.leading = true
		l.began(versions)
	}
	return nil
}

// termOver chooses the versions of a term that begins over a stored Lease. Stamps
// only rise from term to term, so finding the one that we stored last proves that
// nobody else has begun one since.
func (l *lock) termOver(lease *coordinationv1.Lease, now time.Time) *viewcache.Versions {
	recorded, known := stampOf(lease)
	if l.versions == nil {
		return viewcache.NewVersions(nextStamp(now, recorded))
	}
	if known && recorded.Equal(l.recorded) {
		return l.versions
	}
	return viewcache.NewVersions(nextStamp(now, recorded, l.versions.Latest()))
}

// stampFor never goes back, not even behind what somebody else has recorded.
func (l *lock) stampFor(versions *viewcache.Versions) time.Time {
	latest := versions.Latest()
	if recorded, _ := stampOf(l.lease); recorded.After(latest) {
		return recorded
	}
	return latest
}

// ended is called when the elector has ended.
func (l *lock) ended() { l.leading = false }

// holds asks the cluster whether the Lease is still ours.
func (l *lock) holds(ctx context.Context) (bool, error) {
	lease, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading the Lease of the active replica: %w", err)
	}
	return holder(lease) == l.identity, nil
}

// release gives the Lease back if it is ours, so that nobody has to wait until it
// runs out. It does not use the elector's own release, which may clear the Lease
// of a successor. The elector must have ended.
func (l *lock) release(ctx context.Context) error {
	lease, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Lease before its release: %w", err)
	}
	if holder(lease) != l.identity || l.versions == nil {
		return nil
	}
	changed := lease.DeepCopy()
	changed.Spec.HolderIdentity = nil
	l.lease = lease
	setStamp(changed, l.stampFor(l.versions))
	if _, err := l.client.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("releasing the Lease: %w", err)
	}
	return nil
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// RecordEvent does nothing: terms are logged and counted instead.
func (l *lock) RecordEvent(string) {}

// Identity is the holder that the elector writes.
func (l *lock) Identity() string { return l.identity }

// Describe names the Lease in the elector's log.
func (l *lock) Describe() string { return l.namespace + "/" + l.name }
