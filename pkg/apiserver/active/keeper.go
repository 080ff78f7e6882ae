package active

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// keep looks after the EndpointSlice until ctx ends.
func (r *Replica) keep(ctx context.Context) {
	for {
		wait := checkPeriod
		if err := r.step(ctx); err != nil && ctx.Err() == nil {
			wait = hurry
			// Conflicts happen when a successor was faster, and are looked at again.
			if !apierrors.IsConflict(err) {
				utilruntime.HandleErrorWithContext(ctx, err, "Looking after the endpoint slice failed, will retry")
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (r *Replica) step(ctx context.Context) error {
	r.mu.Lock()
	now, lost := r.role, r.lost
	r.mu.Unlock()
	switch now {
	case leading:
		return r.lead(ctx)
	case former:
		led, err := r.ledHere(ctx)
		// Whoever cannot even read that has been replaced by the time the Lease ran
		// out, and clients that stayed would be shown what it last heard of.
		if err != nil && time.Since(lost) < r.LeaseDuration || led {
			return err
		}
		if r.leave(r.Lag) {
			klog.FromContext(ctx).Info("Became a standby, because clients are led elsewhere")
		}
	}
	return nil
}

// lead makes the EndpointSlice lead here. The order is what fences a replica that
// was paused: the slice, then the Lease, then a write over the slice as read.
func (r *Replica) lead(ctx context.Context) error {
	slice, err := r.Slices.Get(ctx, r.EndpointSlice, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the endpoint slice: %w", err)
	}
	changed, err := leadingTo(slice, r.Address)
	if err != nil || changed == nil {
		return err
	}
	held, err := r.lock.holds(ctx)
	if err != nil || !held {
		return err
	}
	if _, err := r.Slices.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the endpoint slice: %w", err)
	}
	klog.FromContext(ctx).Info("Became the active replica", "address", r.Address, "endpointSlice", klog.KObj(slice))
	return nil
}

func (r *Replica) ledHere(ctx context.Context) (bool, error) {
	slice, err := r.Slices.Get(ctx, r.EndpointSlice, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading the endpoint slice: %w", err)
	}
	return leadsTo(slice, r.Address), nil
}
