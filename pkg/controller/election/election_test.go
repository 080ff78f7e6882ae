package election

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// noRegistry lets each election of a test have metrics of its own.
type noRegistry struct{}

func (noRegistry) Register(prometheus.Collector) error  { return nil }
func (noRegistry) MustRegister(...prometheus.Collector) {}
func (noRegistry) Unregister(prometheus.Collector) bool { return true }

const (
	leaseL = "web-leader"
	leaseR = "web-retained-state"
)

func settings(identity string) Settings {
	return Settings{
		Namespace: "ns", Template: fencing.TemplateRef{Name: "web", UID: "t-uid"}, LeaseName: leaseL, Identity: identity,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
	}
}

// process is one running election.
type process struct {
	*leader
	store *leaseStore
	stop  context.CancelFunc
	done  chan error
}

// start runs an election inside the bubble until the test stops it.
func start(t *testing.T, s Settings, store *leaseStore, l *leader, living templates) *process {
	t.Helper()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	p := &process{leader: l, store: store, stop: stop, done: make(chan error, 1)}
	e := mustNew(t, s, store, living, l)
	go func() { p.done <- e.Run(ctx) }()
	return p
}

func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		t.Errorf("Run() = %v after a graceful stop", err)
	}
}

// leadsWithin waits until the process leads its nth term.
func (p *process) leadsWithin(t *testing.T, n int, limit time.Duration) *Term {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		if p.led() >= n {
			return p.current()
		}
		if time.Now().After(deadline) {
			t.Fatalf("leads %d terms after %s, want %d", p.led(), limit, n)
		}
	}
}

func l(s *leaseStore) fencing.ElectionLease { return record.ElectionLease(s.read(leaseL)) }
func r(s *leaseStore) fencing.RetainedLease { return record.RetainedLease(s.read(leaseR)) }

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestATermClaimsRecordsAndIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		term := p.leadsWithin(t, 1, 5*time.Second)
		if term.Epoch() != 1 {
			t.Errorf("Epoch() = %d, want 1", term.Epoch())
		}
		store.took()
		if err := term.Record(t.Context(), "p1", "s1"); err != nil {
			t.Fatal(err)
		}
		want := []call{
			{Process: "pod-1_a", Verb: "get", Name: leaseL},
			{Process: "pod-1_a", Verb: "get", Name: leaseR},
			{Process: "pod-1_a", Verb: "update", Name: leaseR},
			{Process: "pod-1_a", Verb: "get", Name: leaseL},
		}
		if diff := cmp.Diff(want, store.took()); diff != "" {
			t.Errorf("calls of a record (-want +got):\n%s", diff)
		}
		if err := term.CheckIntent(t.Context(), "p1", "s1"); err != nil {
			t.Errorf("CheckIntent() of the recorded output: %v", err)
		}
		if err := term.CheckIntent(t.Context(), "p0", "s0"); !errors.Is(err, fencing.ErrSuperseded) {
			t.Errorf("CheckIntent() of another output = %v, want ErrSuperseded", err)
		}
		p.end(t)

		released := l(store)
		if released.Holder != "" || released.Epoch != 1 || released.Copy.Present {
			t.Errorf("released lease = %+v, want no holder, epoch 1, no copy", released)
		}
		got := r(store).Intent.Intent
		wantIntent := fencing.Intent{
			UID: "t-uid", Epoch: 1, Claim: got.Claim, PlanID: "p1", Checksum: "s1", Holder: "pod-1_a",
		}
		if diff := cmp.Diff(wantIntent, got); diff != "" || len(got.Claim) != 26 {
			t.Errorf("intent (-want +got):\n%s", diff)
		}
	})
}

// The scenario that ADR-0033 names: the real elector against a server that
// enforces resource versions, an intent ahead of every renewal.
func TestDeploymentIntentWritesNeverFailALeaseRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const renewals = 500
		store := newLeaseStore()
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		term := p.leadsWithin(t, 1, 5*time.Second)
		store.took()
		recorded := 0
		store.hooks(func(c call) error {
			if c.Verb != "update" || c.Name != leaseL {
				return nil
			}
			recorded++
			return term.Record(context.Background(), fmt.Sprintf("p%d", recorded), "s")
		}, nil)
		time.Sleep(renewals*2*time.Second + time.Second)
		store.hooks(nil, nil)

		calls := store.took()
		if n := count(calls, call{Process: "pod-1_a", Verb: "update", Name: leaseL, Failed: true}); n != 0 {
			t.Errorf("%d renewals failed, want none", n)
		}
		renewed := count(calls, call{Process: "pod-1_a", Verb: "update", Name: leaseL})
		if renewed < renewals || renewed != recorded {
			t.Errorf("%d renewals and %d records, want both %d or a few more", renewed, recorded, renewals)
		}
		if got := l(store); got.Epoch != 1 || p.led() != 1 {
			t.Errorf("epoch %d after %d terms, want 1 and 1", got.Epoch, p.led())
		}
		p.end(t)
	})
}

func TestTheClaimItselfMakesNoRenewalConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		p.leadsWithin(t, 1, 5*time.Second)
		time.Sleep(time.Minute)
		for _, c := range store.took() {
			if c.Verb == "update" && c.Failed {
				t.Errorf("a write failed: %+v", c)
			}
		}
		p.end(t)
	})
}

func TestP9AForeignWriterOnTheElectionLeaseCostsNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		term := p.leadsWithin(t, 1, 5*time.Second)
		for i := range 120 {
			store.edit(leaseL, func(lease *coordinationv1.Lease) {
				lease.Labels = map[string]string{"tracked": fmt.Sprint(i)}
			})
			time.Sleep(time.Second)
		}
		if err := term.Record(t.Context(), "p1", "s1"); err != nil {
			t.Errorf("Record() = %v", err)
		}
		if got := l(store); p.led() != 1 || got.Epoch != 1 || store.read(leaseL).Labels["tracked"] != "119" {
			t.Errorf("%d terms, epoch %d, labels %v", p.led(), got.Epoch, store.read(leaseL).Labels)
		}
		p.end(t)
	})
}

func TestP9ATermEndsWhenItsLeaseIsNoLongerItsOwn(t *testing.T) {
	changes := map[string]func(*leaseStore){
		"the epoch was removed": func(s *leaseStore) {
			s.edit(leaseL, func(lease *coordinationv1.Lease) { lease.Annotations = nil })
		},
		"the epoch was changed": func(s *leaseStore) {
			s.edit(leaseL, func(lease *coordinationv1.Lease) { lease.Annotations["haptic.io/leader-epoch"] = "1" })
		},
		"the lease was deleted": func(s *leaseStore) { s.remove(leaseL) },
		"the lease changed hands and came back": func(s *leaseStore) {
			s.edit(leaseL, func(lease *coordinationv1.Lease) { *lease.Spec.LeaseTransitions += 2 })
		},
	}
	for name, change := range changes {
		bubble(t, name, func(t *testing.T) {
			store := newLeaseStore()
			// A history: the epoch is at 7 before the term under test.
			store.put(record.WithEpoch(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseL}}, 6,
				fencing.TemplateRef{Name: "web", UID: "t-uid"}))
			p := start(t, settings("pod-1_a"), store, &leader{}, nil)
			term := p.leadsWithin(t, 1, 20*time.Second)
			change(store)
			if err := term.Record(t.Context(), "p1", "s1"); !errors.Is(err, fencing.ErrFenced) {
				t.Errorf("Record() = %v, want ErrFenced", err)
			}
			next := p.leadsWithin(t, 2, 20*time.Second)
			if next.Epoch() <= term.Epoch() {
				t.Errorf("next term is at epoch %d, the one before was at %d", next.Epoch(), term.Epoch())
			}
			if err := next.Record(t.Context(), "p1", "s1"); err != nil {
				t.Errorf("Record() of the next term = %v", err)
			}
			p.end(t)
		})
	}
}

func TestTheElectorAloneNoticesAnotherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		ended := make(chan time.Time, 1)
		p := start(t, settings("pod-1_a"), store, &leader{lead: func(ctx context.Context, _ *Term) {
			<-ctx.Done()
			ended <- time.Now()
		}}, nil)
		p.leadsWithin(t, 1, 5*time.Second)
		other := "pod-2_b"
		store.edit(leaseL, func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = &other })
		changed := time.Now()
		if took := (<-ended).Sub(changed); took > 2*time.Second+500*time.Millisecond {
			t.Errorf("the term ended after %s, want within one retry period", took)
		}
		p.end(t)
		if got := l(store).Holder; got != other {
			t.Errorf("holder = %q, want the new one untouched", got)
		}
	})
}

func TestP10aAGracefulStopDrainsBeforeTheLeaseIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		p := &leader{}
		p.lead = func(ctx context.Context, _ *Term) {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // an apply that cannot be cancelled
			p.note("work ended, holder " + l(store).Holder)
		}
		p.drain = func(ctx context.Context, term *Term) {
			time.Sleep(12 * time.Second) // longer than the lease would last unrenewed
			err := term.Check(ctx)
			p.note(fmt.Sprintf("drained, check %v, holder %s", err, l(store).Holder))
		}
		run := start(t, settings("pod-1_a"), store, p, nil)
		run.leadsWithin(t, 1, 5*time.Second)
		run.end(t)
		want := []string{"drained, check <nil>, holder pod-1_a", "work ended, holder pod-1_a"}
		if diff := cmp.Diff(want, p.noted()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if got := l(store).Holder; got != "" {
			t.Errorf("holder = %q after the stop, want none", got)
		}
	})
}

func TestP10dADrainIsCutAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		var took time.Duration
		p := start(t, settings("pod-1_a"), store, &leader{drain: func(ctx context.Context, _ *Term) {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
		}}, nil)
		p.leadsWithin(t, 1, 5*time.Second)
		p.end(t)
		if took != DrainLimit {
			t.Errorf("drain took %s, want %s", took, DrainLimit)
		}
	})
}

func TestP10cAProcessLeadsOrFollowsAgainAfterEveryOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseStore()
		p := start(t, settings("pod-1_a"), store, &leader{}, nil)
		p.leadsWithin(t, 1, 5*time.Second)
		for round := 2; round <= 50; round++ {
			store.hooks(func(call) error { return apierrors.NewInternalError(errors.New("down")) }, nil)
			time.Sleep(30 * time.Second)
			store.hooks(nil, nil)
			term := p.leadsWithin(t, round, 15*time.Second)
			if term.Epoch() != uint64(round) {
				t.Fatalf("round %d leads at epoch %d", round, term.Epoch())
			}
		}
		p.end(t) // the bubble fails if a goroutine is left
	})
}
