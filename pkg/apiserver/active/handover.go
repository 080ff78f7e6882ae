package active

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// HandOver ends Run, gives the Lease to a standby, and returns when no client is
// sent here any more: the EndpointSlice leads elsewhere, and has for a moment. The
// server must serve until then. A standby returns at once. If nobody takes over
// within the limit, the EndpointSlice is emptied, because an address where nobody
// listens makes clients wait instead of refusing them.
func (r *Replica) HandOver(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("active"))
	r.stopOnce.Do(func() { close(r.stopping) })
	ctx, cancel := context.WithTimeout(ctx, r.HandOverLimit)
	defer cancel()
	select {
	case <-r.stopped:
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	now := r.role
	r.mu.Unlock()
	if now == standby {
		return
	}
	if err := r.lock.release(ctx); err != nil {
		// The successor waits until the Lease runs out, which is within the limit.
		utilruntime.HandleErrorWithContext(ctx, err, "Releasing the Lease failed")
	}
	if r.awaitSuccessor(ctx) {
		pause(context.WithoutCancel(ctx), r.Lag)
		return
	}
	klog.FromContext(ctx).Info("Found no successor", "limit", r.HandOverLimit)
	if err := r.withdraw(context.WithoutCancel(ctx)); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Leaving the endpoint slice failed")
	}
}

func (r *Replica) awaitSuccessor(ctx context.Context) bool {
	began := time.Now()
	for {
		led, err := r.ledHere(ctx)
		if err == nil && !led {
			r.markLeft()
			klog.FromContext(ctx).Info("Handed over to another replica", "seconds", time.Since(began).Seconds())
			return true
		}
		if !pause(ctx, hurry) {
			return false
		}
	}
}

// markLeft makes clients dial anew, who are led elsewhere by now. The history stays
// until the process ends.
func (r *Replica) markLeft() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = time.Now()
}

// withdraw empties the EndpointSlice if it still leads here.
func (r *Replica) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.RenewDeadline)
	defer cancel()
	slice, err := r.Slices.Get(ctx, r.EndpointSlice, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the endpoint slice: %w", err)
	}
	if !leadsTo(slice, r.Address) {
		return nil
	}
	if _, err := r.Slices.Update(ctx, leadingNowhere(slice), metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("emptying the endpoint slice: %w", err)
	}
	return nil
}
