package fakeapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

func TestAWatchFromBeforeTheHistoryHasExpired(t *testing.T) {
	s := New(Options{History: 2})
	core, _ := clientsOf(t, s, Admin)
	leases := core.CoordinationV1().Leases(ns)
	var versions []string
	for i := range 4 {
		made, err := leases.Create(t.Context(), lease(fmt.Sprint("l", i)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, made.ResourceVersion)
	}
	first := func(version string) watch.Event {
		t.Helper()
		w, err := leases.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		return <-w.ResultChan()
	}
	if got := first(versions[1]); got.Type != watch.Added {
		t.Errorf("the oldest version that is kept gave %s", got.Type)
	}
	if got := first(versions[0]); !apierrors.IsResourceExpired(apierrors.FromObject(got.Object)) {
		t.Errorf("a version before the history gave %v", got)
	}
	s.Compact()
	if got := first(versions[2]); !apierrors.IsResourceExpired(apierrors.FromObject(got.Object)) {
		t.Errorf("a version before a compaction gave %v", got)
	}
}

// An informer's watch is broken off at every third event and its history is
// compacted, while several writers race; it must end equal to the truth.
func TestAnInformerSurvivesBrokenWatchesAndCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{History: 8})
		core, _ := clientsOf(t, s, "writer")
		reader, _ := clientsOf(t, s, "reader")
		var delivered atomic.Int32
		s.Hooks(Hooks{Event: func(ctx context.Context, c Call, _, _ string) error {
			if c.Client != "reader" {
				t.Errorf("an event went to %s", c.Client)
			}
			if delivered.Add(1)%3 == 0 {
				return errors.New("broken off")
			}
			return ctx.Err()
		}})
		factory := informers.NewSharedInformerFactory(reader, 0)
		lister := factory.Coordination().V1().Leases().Lister()
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		if _, err := core.CoordinationV1().Leases(ns).Create(ctx, lease("l"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() { count(t, core.CoordinationV1().Leases(ns).Get, core.CoordinationV1().Leases(ns).Update) })
		}
		writers.Wait()
		s.Compact()
		s.Hooks(Hooks{})
		time.Sleep(time.Hour)
		got, err := lister.Leases(ns).Get("l")
		if err != nil || got.Annotations["n"] != "40" {
			t.Errorf("the informer holds %v: %v", got, err)
		}
		cancel()
		factory.Shutdown()
	})
}

// count raises a number ten times by compare-and-swap.
func count(t *testing.T, get func(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error),
	update func(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error)) {
	for range 10 {
		always := retry.DefaultRetry
		always.Steps = 1000
		err := retry.RetryOnConflict(always, func() error {
			l, err := get(t.Context(), "l", metav1.GetOptions{})
			if err != nil {
				return err
			}
			n, _ := strconv.Atoi(l.Annotations["n"])
			l.Annotations = map[string]string{"n": strconv.Itoa(n + 1)}
			_, err = update(t.Context(), l, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestTheRealElectorHandsOverInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		var mu sync.Mutex
		var led []string
		elect := func(ctx context.Context, name string) {
			core, _ := clientsOf(t, s, name)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta: metav1.ObjectMeta{Name: "l", Namespace: ns}, Client: core.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: name},
				},
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) {
						mu.Lock()
						led = append(led, name)
						mu.Unlock()
						<-ctx.Done()
					},
					OnStoppedLeading: func() {},
				},
			})
		}
		var candidates sync.WaitGroup
		one, stopOne := context.WithCancel(t.Context())
		candidates.Go(func() { elect(one, "one") })
		time.Sleep(time.Minute)
		two, stopTwo := context.WithCancel(t.Context())
		candidates.Go(func() { elect(two, "two") })
		time.Sleep(time.Minute)
		stopOne()
		time.Sleep(time.Minute)
		stopTwo()
		candidates.Wait()
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"one", "two"}, led); diff != "" {
			t.Errorf("leaders (-want +got):\n%s", diff)
		}
	})
}

func TestAParkedEventIsDroppedWithItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		core, _ := clientsOf(t, s, "one")
		admin, _ := clientsOf(t, s, Admin)
		s.Hooks(Hooks{Event: func(ctx context.Context, _ Call, _, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		w, err := core.CoordinationV1().Leases(ns).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.CoordinationV1().Leases(ns).Create(t.Context(), lease("l"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Stop()
		for event := range w.ResultChan() {
			if event.Type != watch.Error {
				t.Errorf("a parked event was delivered: %v", event)
			}
		}
	})
}
