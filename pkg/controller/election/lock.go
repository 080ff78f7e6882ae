package election

import (
	"context"
	"encoding/json"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the leader-election Lease as the elector writes it. Beside client-go's
// own lock it does two things: every Lease that the elector reads or gets back
// is shown to observe, so that a term ends on the first sign of another holder;
// and the term's few writes go through it too, one call at a time, so that they
// never make a renewal conflict.
type lock struct {
	client    LeaseClient
	namespace string
	name      string
	identity  string
	// observe is called with every Lease seen, nil when there is none. It is
	// called while the turn is held, so observations come in order.
	observe func(*coordinationv1.Lease)

	// turn holds one token; whoever took it may call the API and use lease.
	turn  chan struct{}
	lease *coordinationv1.Lease
}

func newLock(client LeaseClient, s Settings, observe func(*coordinationv1.Lease)) *lock {
	l := &lock{
		client: client, namespace: s.Namespace, name: s.LeaseName, identity: s.Identity,
		observe: observe, turn: make(chan struct{}, 1),
	}
	l.turn <- struct{}{}
	return l
}

var _ resourcelock.Interface = (*lock)(nil)

var errNoLease = errors.New("lease was not read or created yet")

// take waits for the turn. A caller whose context ends first may not call.
func (l *lock) take(ctx context.Context) error {
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *lock) give() { l.turn <- struct{}{} }

// see remembers the outcome of a call, if it has one, and shows it.
func (l *lock) see(lease *coordinationv1.Lease, err error) error {
	if err != nil {
		return err
	}
	l.lease = lease
	l.observe(lease)
	return nil
}

func (l *lock) get(ctx context.Context) error {
	lease, err := l.client.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l.lease = nil
		l.observe(nil)
	}
	return l.see(lease, err)
}

// Get reads the record for the elector.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.take(ctx); err != nil {
		return nil, nil, err
	}
	defer l.give()
	if err := l.get(ctx); err != nil {
		return nil, nil, err
	}
	found := resourcelock.LeaseSpecToLeaderElectionRecord(&l.lease.Spec)
	raw, err := json.Marshal(found)
	return found, raw, err
}

// Create stores the elector's first record.
func (l *lock) Create(ctx context.Context, first resourcelock.LeaderElectionRecord) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	return l.see(l.client.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name},
		Spec:       resourcelock.LeaderElectionRecordToLeaseSpec(&first),
	}, metav1.CreateOptions{}))
}

// Update stores the elector's next record over the Lease last seen. Annotations
// stay as they are.
func (l *lock) Update(ctx context.Context, next resourcelock.LeaderElectionRecord) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if l.lease == nil {
		return errNoLease
	}
	changed := l.lease.DeepCopy()
	changed.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&next)
	return l.see(l.client.Update(ctx, changed, metav1.UpdateOptions{}))
}

// change lets a term read the Lease and write it with the resourceVersion it
// read. Returning nil from decide writes nothing. done runs after a successful
// write, before the elector can see it.
func (l *lock) change(ctx context.Context, decide func(*coordinationv1.Lease) (*coordinationv1.Lease, error), done func()) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if err := l.get(ctx); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	changed, err := decide(l.lease)
	if err != nil || changed == nil {
		return err
	}
	stored, err := l.client.Update(ctx, changed, metav1.UpdateOptions{})
	if err == nil && done != nil {
		done()
	}
	return l.see(stored, err)
}

// RecordEvent does nothing: terms are logged and counted instead.
func (l *lock) RecordEvent(string) {}

// Identity is the holder that the elector writes.
func (l *lock) Identity() string { return l.identity }

// Describe names the Lease in the elector's log.
func (l *lock) Describe() string { return l.namespace + "/" + l.name }
