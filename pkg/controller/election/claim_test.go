package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

var web = fencing.TemplateRef{Name: "web", UID: "t-uid"}

// leftL is a leader-election Lease that an earlier leader left at an epoch.
func leftL(epoch uint64) *coordinationv1.Lease {
	return record.WithEpoch(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseL}}, epoch, web)
}

func leftR(owner fencing.TemplateRef, intent fencing.Intent) *coordinationv1.Lease {
	return record.NewRetainedLease("ns", leaseR, owner, intent)
}

func earlier(epoch uint64) fencing.Intent {
	return fencing.Intent{UID: "t-uid", Epoch: epoch, Claim: "old", PlanID: "p1", Checksum: "s1", Holder: "pod-0_z"}
}

func TestUpgradedLeaderKeepsTheDeploymentIntentOfAnEarlierRelease(t *testing.T) {
	copied := fencing.Intent{UID: "t-uid", Epoch: 5, Claim: "old", PlanID: "p0", Checksum: "s0"}
	claimOnly := fencing.Intent{UID: "t-uid", Epoch: 5, Claim: "old"}
	tests := []struct {
		name   string
		copy   string
		stored []*coordinationv1.Lease
		plan   string
	}{
		{name: "0.6 ran alone", copy: copied.Encode(), plan: "p0"},
		{name: "0.7, then a rollback to 0.6 that deployed", copy: copied.Encode(),
			stored: []*coordinationv1.Lease{leftR(web, earlier(4))}, plan: "p0"},
		{name: "0.7, then a rollback to 0.6 that deployed nothing", copy: claimOnly.Encode(),
			stored: []*coordinationv1.Lease{leftR(web, earlier(4))}, plan: "p1"},
		{name: "a copy that does not parse", copy: "{",
			stored: []*coordinationv1.Lease{leftR(web, earlier(4))}, plan: "p1"},
	}
	for _, tc := range tests {
		bubble(t, tc.name, func(t *testing.T) {
			old := leftL(5)
			old.Annotations["haproxy-haptic.org/deployment-intent"] = tc.copy
			store := newLeaseStore(append(tc.stored, old)...)
			p := start(t, settings("pod-1_a"), store, &leader{}, nil)
			term := p.leadsWithin(t, 1, 20*time.Second)
			intent, err := term.Intent(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if intent.PlanID != tc.plan || intent.Epoch != 6 {
				t.Errorf("Intent() = %+v, want plan %s at epoch 6", intent, tc.plan)
			}
			if l(store).Copy.Present {
				t.Error("the copy is still on the leader-election lease")
			}
			p.end(t)
		})
	}
}

func TestACopyThatCannotBeRemovedEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := leftL(5)
		old.Annotations["haproxy-haptic.org/deployment-intent"] = earlier(5).Encode()
		store := newLeaseStore(old)
		store.hooks(func(c call) error {
			if c.Verb == "update" && c.Name == leaseL && l(store).Epoch > 5 {
				return apierrors.NewForbidden(leaseResource, leaseL, errors.New("no"))
			}
			return nil
		}, nil)
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		time.Sleep(10 * time.Second)
		if p.led() != 0 {
			t.Error("a term began with the copy still there")
		}
		if !l(store).Copy.Present || r(store).Intent.Intent.PlanID != "p1" {
			t.Errorf("copy %v, intent %+v, want the copy kept and adopted", l(store).Copy.Present, r(store).Intent.Intent)
		}
		store.hooks(nil, nil)
		p.leadsWithin(t, 1, time.Minute)
		p.end(t)
	})
}

func TestARecreatedElectionLeaseLiftsTheEpochAboveR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore(leftR(web, earlier(41)))
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		term := p.leadsWithin(t, 1, 5*time.Second)
		intent, err := term.Intent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if term.Epoch() != 42 || intent.Epoch != 42 || intent.PlanID != "p1" {
			t.Errorf("epoch %d, intent %+v, want 42 and the plan kept", term.Epoch(), intent)
		}
		p.end(t)
	})
}

func TestAnROfAnEarlierTemplateIsCreatedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore(leftR(fencing.TemplateRef{Name: "web", UID: "earlier"}, fencing.Intent{
			UID: "earlier", Epoch: 3, Claim: "c", PlanID: "p9", Checksum: "s9",
		}))
		old := store.read(leaseR).UID
		p := start(t, settings("pod-1_a"), store, &leader{}, templates{"t-uid": "web"})
		term := p.leadsWithin(t, 1, 5*time.Second)
		intent, err := term.Intent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if intent.HasPlan() || intent.UID != "t-uid" || term.Epoch() != 4 || store.read(leaseR).UID == old {
			t.Errorf("intent %+v at epoch %d, want a new lease without a plan at 4", intent, term.Epoch())
		}
		p.end(t)
	})
}

func TestTwoTemplatesOnOneLeaseAreRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := fencing.TemplateRef{Name: "shop", UID: "shop-uid"}
		left := record.WithEpoch(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseL}}, 3, other)
		store := newLeaseStore(left)
		living := templates{"t-uid": "web", "shop-uid": "shop"}
		p := start(t, settings("pod-1_a"), store, &leader{}, living)
		time.Sleep(time.Minute)
		if got := l(store); p.led() != 0 || got.Epoch != 3 || got.Template != other {
			t.Errorf("%d terms, lease %+v, want none and the lease as it was", p.led(), got)
		}
		p.end(t)
		if got := l(store).Holder; got != "" {
			t.Errorf("holder = %q, want the lease free for its template", got)
		}
	})
}

func TestAnAgentsFloorRaisesTheEpochBeforeTheTermLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		var announced []uint64
		p := start(t, settings("pod-1_a"), store, &leader{announce: func(_ context.Context, epoch uint64) []uint64 {
			announced = append(announced, epoch)
			if epoch < 30 {
				return []uint64{12, 30, fencing.MaxEpochJump * 10}
			}
			return nil
		}}, nil)
		term := p.leadsWithin(t, 1, 5*time.Second)
		if diff := cmp.Diff([]uint64{1, 31}, announced); diff != "" {
			t.Errorf("announced epochs (-want +got):\n%s", diff)
		}
		if err := term.Record(t.Context(), "p1", "s1"); err != nil {
			t.Fatal(err)
		}
		if got := r(store).Intent.Intent.Epoch; got != 31 {
			t.Errorf("intent at epoch %d, want 31", got)
		}
		if err := term.Reclaim(t.Context(), 40); err != nil || term.Epoch() != 41 {
			t.Errorf("Reclaim(40) = %v, epoch %d, want 41", err, term.Epoch())
		}
		if got := r(store).Intent.Intent.Epoch; got != 41 {
			t.Errorf("the intent is recorded under epoch %d, want 41", got)
		}
		if err := term.Reclaim(t.Context(), 5_000_000); !errors.Is(err, fencing.ErrEpochJump) {
			t.Errorf("Reclaim() beyond the bound = %v, want ErrEpochJump", err)
		}
		time.Sleep(time.Minute)
		if p.led() != 1 {
			t.Errorf("%d terms, want the one to go on", p.led())
		}
		p.end(t)
	})
}

func TestP10bAPausedLeaderChangesNothingAfterItsSuccessorClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		a := start(t, settings("pod-1_a"), store, &leader{}, nil)
		term := a.leadsWithin(t, 1, 5*time.Second)
		thaw := make(chan struct{})
		store.hooks(func(c call) error {
			if c.Process == "pod-1_a" {
				<-thaw // the whole process stands still
			}
			return nil
		}, nil)
		recorded := make(chan error, 1)
		go func() { recorded <- term.Record(context.Background(), "old", "s") }()
		b := start(t, settings("pod-2_b"), store, &leader{}, nil)
		next := b.leadsWithin(t, 1, time.Minute)
		if err := next.Record(t.Context(), "new", "s"); err != nil {
			t.Fatal(err)
		}
		close(thaw)
		if err := <-recorded; err == nil {
			t.Error("the paused leader's record was accepted")
		}
		if got := r(store).Intent.Intent; got.PlanID != "new" || got.Holder != "pod-2_b" {
			t.Errorf("intent = %+v, want the successor's", got)
		}
		time.Sleep(time.Minute)
		if a.led() != 1 || b.led() != 1 || l(store).Holder != "pod-2_b" {
			t.Errorf("terms %d and %d, holder %q", a.led(), b.led(), l(store).Holder)
		}
		a.end(t)
		b.end(t)
	})
}

func TestLostRepliesOfTheClaimLeaveOneTerm(t *testing.T) {
	for n := 1; n <= 4; n++ {
		bubble(t, fmt.Sprintf("the reply to write %d is lost", n), func(t *testing.T) {
			old := leftL(5)
			old.Annotations["haproxy-haptic.org/deployment-intent"] = earlier(5).Encode()
			store := newLeaseStore(old)
			// The claim and the elector's renewals write beside each other.
			var writes atomic.Int32
			store.hooks(nil, func(c call) error {
				if c.Verb != "get" && writes.Add(1) == int32(n) {
					return apierrors.NewInternalError(errors.New("lost"))
				}
				return nil
			})
			p := start(t, settings("pod-1_a"), store, &leader{}, nil)
			term := p.leadsWithin(t, 1, time.Minute)
			intent, err := term.Intent(t.Context())
			if err != nil || intent.PlanID != "p1" || l(store).Copy.Present {
				t.Errorf("Intent() = %+v, %v, copy %v", intent, err, l(store).Copy.Present)
			}
			p.end(t)
		})
	}
}

func TestAStandaloneProcessStopsForGoodWhenItLosesItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := func(identity string) Settings {
			s := settings(identity)
			s.Standalone = true
			return s
		}
		store := newLeaseStore()
		first := start(t, alone("pod-1_a"), store, &leader{}, nil)
		term := first.leadsWithin(t, 1, time.Second)
		if err := term.Record(t.Context(), "p1", "s1"); err != nil {
			t.Fatal(err)
		}
		second := start(t, alone("pod-2_b"), store, &leader{}, nil)
		next := second.leadsWithin(t, 1, time.Second)
		if term.Epoch() != 1 || next.Epoch() != 2 {
			t.Errorf("epochs %d and %d, want 1 and 2", term.Epoch(), next.Epoch())
		}
		if err := term.Record(t.Context(), "p2", "s2"); !errors.Is(err, fencing.ErrFenced) {
			t.Errorf("Record() of the first = %v, want ErrFenced", err)
		}
		if err := <-first.done; !errors.Is(err, fencing.ErrFenced) {
			t.Errorf("Run() of the first = %v, want ErrFenced", err)
		}
		if intent, err := next.Intent(t.Context()); err != nil || intent.PlanID != "p1" {
			t.Errorf("Intent() of the second = %+v, %v, want the first one's plan", intent, err)
		}
		if store.read(leaseL) != nil {
			t.Error("a leader-election lease was written")
		}
		second.end(t)
	})
}
