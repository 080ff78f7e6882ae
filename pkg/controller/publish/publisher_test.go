package publish

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// running is a publisher whose loop runs in the bubble.
type running struct {
	*Publisher
	api  *server
	stop func()
}

func run(t *testing.T, api *server, f *fence) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(quiet())
	p := newPublisher(api, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	return &running{Publisher: p, api: api, stop: func() { cancel(); <-done }}
}

// deploy accepts an output and acknowledges it at once.
func (r *running) deploy(o *checkpoint.Output, sequence uint64) {
	r.Accepted(o, sequence)
	r.Deployed(o, sequence, entryFor(o, "pod-1"))
}

func (r *running) ordinary() string {
	if cfg := read[v1alpha1.HAProxyCfg](r.api, ordinaryKey); cfg != nil {
		return cfg.Spec.Checksum
	}
	return ""
}

func TestTheFirstPublicationIsImmediateAndTheRestIsThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newAPI(t), &fence{})
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		synctest.Wait()
		wantPointers(t, r.api, "a")

		time.Sleep(time.Second)
		r.deploy(site(t, "b"), 2)
		time.Sleep(time.Second)
		r.deploy(site(t, "c"), 3)
		synctest.Wait()
		wantPointers(t, r.api, "a")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		// b was superseded while it waited: receipts coalesce to the newest.
		wantPointers(t, r.api, "c", "a")
		if got := r.ordinary(); got != site(t, "c").Checksum() {
			t.Errorf("ordinary output %s, want c", got)
		}
	})
}

func TestAReceiptOfAnOlderOutputNeverBecomesNewest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newAPI(t), &fence{})
		defer r.stop()
		r.deploy(site(t, "b"), 2)
		synctest.Wait()
		a := site(t, "a")
		r.Deployed(a, 1, entryFor(a, "pod-2"))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		wantPointers(t, r.api, "b")
	})
}

func TestAnEntryThatProvesNothingIsNoReceipt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newAPI(t), &fence{})
		defer r.stop()
		a := site(t, "a")
		r.Accepted(a, 1)
		scheduled := entryFor(a, "pod-1")
		scheduled.Mode = v1alpha1.ModeScheduled
		r.Deployed(a, 1, scheduled)
		time.Sleep(time.Minute)
		wantPointers(t, r.api)
	})
}

func TestNothingIsPublishedWhileRenderingIsBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newAPI(t), &fence{})
		defer r.stop()
		r.Block()
		r.deploy(site(t, "a"), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, q := range r.api.took() {
			if q.writes() {
				t.Errorf("wrote %+v", q)
			}
		}
		if err := r.Flush(t.Context()); !errors.Is(err, ErrBlocked) {
			t.Errorf("Flush() = %v, want ErrBlocked", err)
		}
		r.Unblock() // the output is unchanged, and its receipt was kept
		synctest.Wait()
		wantPointers(t, r.api, "a")
	})
}

func TestBlockCancelsThePublicationUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		var writes atomic.Int32
		api.hooks(func(q request) error {
			if q.writes() && writes.Add(1) == 3 {
				r.Block()
			}
			return nil
		}, nil)
		r.deploy(site(t, "a"), 1)
		synctest.Wait()
		// Files are written side by side, so some were on their way.
		under := writes.Load()
		if under > 2+maxParallelWrites {
			t.Errorf("%d writes were under way at the block", under)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if after := writes.Load(); after != under {
			t.Errorf("%d writes were tried, want none after the block", after-under)
		}
		if cfg := read[v1alpha1.HAProxyCfg](api, ordinaryKey); cfg.Status.AuxiliaryFiles != nil {
			t.Error("references were committed after the block")
		}
		api.hooks(nil, nil)
		r.Unblock()
		time.Sleep(time.Minute)
		synctest.Wait()
		wantPointers(t, api, "a")
	})
}

func TestFlushPublishesTheNewestReceiptPastTheThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		time.Sleep(time.Second)
		r.deploy(site(t, "b"), 2)
		synctest.Wait()
		failures := 0
		api.hooks(func(q request) error {
			if q.writes() && failures < 3 {
				failures++
				return apierrors.NewInternalError(errDown)
			}
			return nil
		}, nil)
		began := time.Now()
		must(t, r.Flush(t.Context()))
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("flush took %s", took)
		}
		wantPointers(t, api, "b", "a")
	})
}

func TestFlushEndsWithItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		synctest.Wait()
		api.hooks(func(request) error { return apierrors.NewInternalError(errDown) }, nil)
		r.deploy(site(t, "b"), 2)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		began := time.Now()
		if err := r.Flush(ctx); err == nil {
			t.Error("flush succeeded without an API server")
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("flush took %s", took)
		}
		api.hooks(nil, nil)
		wantPointers(t, api, "a")
	})
}

func TestDrainPublishesNothingAfterAnotherReplicaTookTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, f := newAPI(t), &fence{}
		r := run(t, api, f)
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		time.Sleep(time.Second)
		r.deploy(site(t, "b"), 2)
		synctest.Wait()
		f.set(func(f *fence) { f.endAt = 1 })
		api.took()
		if err := r.Flush(t.Context()); !errors.Is(err, fencing.ErrFenced) {
			t.Errorf("Flush() = %v, want ErrFenced", err)
		}
		for _, q := range api.took() {
			if q.writes() {
				t.Errorf("wrote %+v", q)
			}
		}
		wantPointers(t, api, "a")
	})
}

func TestARefusalForGoodIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		tries := 0
		api.hooks(func(q request) error {
			if q.writes() {
				tries++
				return statusError(http.StatusInternalServerError, "etcdserver: request is too large")
			}
			return nil
		}, nil)
		r.Accepted(site(t, "a"), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries != 1 {
			t.Errorf("%d tries, want 1", tries)
		}
		api.hooks(nil, nil)
		r.Accepted(site(t, "b"), 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.ordinary(); got != site(t, "b").Checksum() {
			t.Errorf("ordinary output %q, want the next one", got)
		}
	})
}

func TestFailuresAreTriedAgainWithLongerPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		tries := 0
		api.hooks(func(q request) error {
			tries++
			return apierrors.NewInternalError(errDown)
		}, nil)
		r.deploy(site(t, "a"), 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries < 60 || tries > 200 {
			t.Errorf("%d tries of two publications in an hour, want about one a minute each", tries)
		}
		api.hooks(nil, nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wantPointers(t, api, "a")
	})
}

func TestAnIdleHourWritesNothingAndRepairsWhatIsDamaged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		time.Sleep(time.Minute)
		api.took()
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, q := range api.took() {
			if q.writes() {
				t.Errorf("wrote %+v", q)
			}
		}
		api.remove(sharedMap(t, api))
		api.remove(ordinaryKey)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		wantPointers(t, api, "a")
	})
}
