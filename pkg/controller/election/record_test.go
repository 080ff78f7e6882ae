package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// A deposed term records before, during and after its successor's take-over.
func TestTakeoverDuringAnIntentUpdate(t *testing.T) {
	holder := "pod-2_b"
	takeL := func(s *leaseStore) {
		s.edit(leaseL, func(lease *coordinationv1.Lease) {
			lease.Spec.HolderIdentity = &holder
			*lease.Spec.LeaseTransitions++
			lease.Annotations["haptic.io/leader-epoch"] = "2"
		})
	}
	takeR := func(s *leaseStore) {
		next := r(s).Intent.Intent
		next.Epoch, next.Claim, next.Holder = 2, "claim-b", holder
		s.edit(leaseR, func(lease *coordinationv1.Lease) { *lease = *record.WithIntent(lease, next) })
	}
	tests := []struct {
		name string
		// at is the call of the record, 1 to 4, before which the successor acts.
		at     int
		take   []func(*leaseStore)
		landed bool
	}{
		{name: "before the record", at: 1, take: []func(*leaseStore){takeL, takeR}},
		{name: "between the first read and R's read", at: 2, take: []func(*leaseStore){takeL, takeR}},
		{name: "between R's read and its write", at: 3, take: []func(*leaseStore){takeL, takeR}},
		{name: "the epoch only, before R's write", at: 3, take: []func(*leaseStore){takeL}, landed: true},
		{name: "between R's write and the second read", at: 4, take: []func(*leaseStore){takeL, takeR}, landed: true},
	}
	for _, tc := range tests {
		bubble(t, tc.name, func(t *testing.T) {
			store := newLeaseStore()
			p := start(t, settings("pod-1_a"), store, &leader{}, nil)
			term := p.leadsWithin(t, 1, 5*time.Second)
			calls := 0
			store.hooks(func(call) error {
				if calls++; calls == tc.at {
					for _, take := range tc.take {
						take(store)
					}
				}
				return nil
			}, nil)
			err := term.Record(t.Context(), "p2", "s2")
			store.hooks(nil, nil)
			if !errors.Is(err, fencing.ErrFenced) {
				t.Errorf("Record() = %v, want ErrFenced", err)
			}
			if landed := r(store).Intent.Intent.PlanID == "p2"; landed != tc.landed {
				t.Errorf("intent landed: %v, want %v", landed, tc.landed)
			}
			if err := term.Check(t.Context()); !errors.Is(err, fencing.ErrFenced) {
				t.Errorf("Check() = %v, want ErrFenced", err)
			}
			p.end(t)
			if got := l(store).Holder; got != holder {
				t.Errorf("holder = %q, want the successor untouched", got)
			}
		})
	}
}

func TestAWriteInDoubtCannotLandBehindARecordThatChangesNothing(t *testing.T) {
	bubble(t, "going back to the recorded output", func(t *testing.T) {
		store := newLeaseStore()
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		term := p.leadsWithin(t, 1, 5*time.Second)
		if err := term.Record(t.Context(), "p1", "s1"); err != nil {
			t.Fatal(err)
		}
		held := store.read(leaseR)
		store.hooks(func(c call) error {
			if c.Verb == "update" && c.Name == leaseR {
				return context.DeadlineExceeded
			}
			return nil
		}, nil)
		if err := term.Record(t.Context(), "p2", "s2"); err == nil {
			t.Fatal("Record() of a write that was not answered succeeded")
		}
		store.hooks(nil, nil)
		if err := term.Record(t.Context(), "p1", "s1"); err != nil {
			t.Fatal(err)
		}
		late := record.RetainedLease(held).Intent.Intent
		late.PlanID, late.Checksum = "p2", "s2"
		_, err := store.clientOf("pod-1_a").Update(t.Context(), record.WithIntent(held, late), metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			t.Errorf("the late write ended with %v, want a conflict", err)
		}
		if got := record.RetainedLease(store.read(leaseR)).Intent.Intent.PlanID; got != "p1" {
			t.Errorf("the intent is plan %q, want p1", got)
		}
		p.end(t)
	})
}

func TestAFailedSecondReadRefusesTheApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		term := p.leadsWithin(t, 1, 5*time.Second)
		gets := 0
		store.hooks(func(c call) error {
			if c.Verb == "get" && c.Name == leaseL {
				if gets++; gets == 2 {
					return apierrors.NewInternalError(errors.New("down"))
				}
			}
			return nil
		}, nil)
		err := term.Record(t.Context(), "p2", "s2")
		store.hooks(nil, nil)
		if err == nil || errors.Is(err, fencing.ErrFenced) {
			t.Errorf("Record() = %v, want an error that leaves the term", err)
		}
		if r(store).Intent.Intent.PlanID != "p2" {
			t.Error("the intent did not land")
		}
		if err := term.Record(t.Context(), "p2", "s2"); err != nil {
			t.Errorf("Record() again = %v", err)
		}
		p.end(t)
	})
}
