package election

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// allActs is more than can be under way at once.
const allActs = 1 << 20

// Term is one stretch of leadership, safe for concurrent use. Every error of
// its acts that is fencing.ErrFenced also ends it.
type Term struct {
	settings Settings
	leases   LeaseClient
	metrics  *Metrics
	// lock is nil in standalone mode.
	lock *lock
	end  context.CancelCauseFunc

	// acts lets a change of the epoch wait until no act is halfway between the
	// epoch it reads on the Lease and the one it compares with: an act takes one
	// of it, a change takes all. It is held over calls, so waits need a context.
	acts *semaphore.Weighted

	mu   sync.Mutex
	self fencing.Term
	// stamped is the epoch that R carries with the term's claim.
	stamped uint64
	// doubtful says that a write to R was not answered and may still land.
	doubtful bool
}

// Epoch is the term's number, by which it may act: both Leases carry it. Only
// Reclaim raises it.
func (t *Term) Epoch() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stamped
}

// Identity is the holder that the term acts as.
func (t *Term) Identity() string { return t.settings.Identity }

func (t *Term) facts() fencing.Term {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.self
}

// stamp makes the epoch on L the one to act by, once R carries it.
func (t *Term) stamp(epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stamped = epoch
}

func (t *Term) setEpoch(epoch uint64) {
	t.mu.Lock()
	t.self.Epoch = epoch
	t.mu.Unlock()
	t.metrics.Epoch.Set(float64(epoch))
}

// observe ends the term if a Lease that the elector saw is not the term's.
func (t *Term) observe(lease *coordinationv1.Lease) {
	seen, self := record.ElectionLease(lease), t.facts()
	judge := fencing.HoldsEpoch
	if self.Epoch == 0 {
		judge = fencing.Leads // nothing is claimed yet
	}
	if err := judge(seen, self); err != nil {
		t.end(err)
	}
}

// Record makes an output the fleet's intent. It must succeed before the first
// apply of the output; after any error nothing may be applied, even though the
// intent may have been stored.
func (t *Term) Record(ctx context.Context, planID, checksum string) error {
	err := t.amend(ctx, func(l fencing.ElectionLease, r fencing.RetainedLease) (fencing.Intent, bool, error) {
		return fencing.Record(l, r, t.facts(), planID, checksum)
	})
	switch {
	case err == nil:
		t.metrics.Records.WithLabelValues(outcomeRecorded).Inc()
		return nil
	case errors.Is(err, fencing.ErrFenced):
		t.metrics.Records.WithLabelValues(outcomeFenced).Inc()
	default:
		t.metrics.Records.WithLabelValues(outcomeFailed).Inc()
	}
	return fmt.Errorf("record intent for plan %s: %w", planID, err)
}

// Activate marks recovery from a checkpoint as in force, or with nil as over.
func (t *Term) Activate(ctx context.Context, active *fencing.Active) error {
	err := t.amend(ctx, func(l fencing.ElectionLease, r fencing.RetainedLease) (fencing.Intent, bool, error) {
		return fencing.Activate(l, r, t.facts(), active)
	})
	if err != nil {
		return fmt.Errorf("mark recovery on the intent: %w", err)
	}
	return nil
}

// doubt takes how a write to R ended. A conflict settles what came before as well:
// R has moved on from the version that all of it was made for.
func (t *Term) doubt(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubtful = err != nil && !apierrors.IsConflict(err)
}

func (t *Term) isDoubtful() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubtful
}

type amendment func(fencing.ElectionLease, fencing.RetainedLease) (intent fencing.Intent, write bool, err error)

// amend reads L, changes R by compare-and-swap, and reads L again. The second
// read is not repeated when it fails: whoever asked must not act.
func (t *Term) amend(ctx context.Context, decide amendment) error {
	if err := t.acts.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.acts.Release(1)
	err := retryConflicts(ctx, func(ctx context.Context) error {
		l, err := t.readElection(ctx)
		if err != nil {
			return err
		}
		lease, err := t.readRetained(ctx)
		if err != nil {
			return err
		}
		intent, write, err := decide(l, record.RetainedLease(lease))
		if err != nil || !write && !t.isDoubtful() {
			return err
		}
		next := record.WithIntent(lease, intent)
		if !write {
			// R says so already, and so it must remain: an earlier write of another
			// output, made for this version of R, is to find a later one.
			next = record.Renumbered(next)
		}
		_, err = t.update(ctx, next)
		t.doubt(err)
		return err
	})
	if err == nil {
		var l fencing.ElectionLease
		if l, err = t.readElection(ctx); err == nil {
			err = fencing.HoldsEpoch(l, t.facts())
		}
	}
	return t.fence(err)
}

// Check requires that both Leases still are the term's.
func (t *Term) Check(ctx context.Context) error {
	_, err := t.check(ctx, fencing.Check)
	return err
}

// CheckIntent is Check, and requires the intent to name the output. With
// fencing.ErrSuperseded the term goes on, without that output.
func (t *Term) CheckIntent(ctx context.Context, planID, checksum string) error {
	_, err := t.check(ctx, func(r fencing.RetainedLease, l fencing.ElectionLease, self fencing.Term) error {
		return fencing.CheckIntent(r, l, self, planID, checksum)
	})
	return err
}

// Intent is the recorded intent, after a Check.
func (t *Term) Intent(ctx context.Context) (fencing.Intent, error) {
	return t.check(ctx, fencing.Check)
}

type judgement func(fencing.RetainedLease, fencing.ElectionLease, fencing.Term) error

// check reads R before L: see fencing.Check.
func (t *Term) check(ctx context.Context, judge judgement) (fencing.Intent, error) {
	if err := t.acts.Acquire(ctx, 1); err != nil {
		return fencing.Intent{}, err
	}
	defer t.acts.Release(1)
	lease, err := t.readRetained(ctx)
	if err != nil {
		return fencing.Intent{}, fmt.Errorf("check the term: %w", err)
	}
	l, err := t.readElection(ctx)
	if err != nil {
		return fencing.Intent{}, fmt.Errorf("check the term: %w", err)
	}
	r := record.RetainedLease(lease)
	if err := t.fence(judge(r, l, t.facts())); err != nil {
		return fencing.Intent{}, err
	}
	return r.Intent.Intent, nil
}

// Reclaim raises the epoch above a floor that an agent reported. The new epoch
// must be announced before anything is applied with it. With
// fencing.ErrEpochJump that agent is at fault, and the term goes on without it.
func (t *Term) Reclaim(ctx context.Context, floor uint64) error {
	if t.settings.Standalone {
		return fmt.Errorf("reclaim above %d: %w: a standalone term has no lease to raise", floor, fencing.ErrFenced)
	}
	if err := t.raise(ctx, floor, fencing.Reclaim); err != nil {
		return err
	}
	// Whoever acts by the new epoch has its intent recorded under it.
	var epoch uint64
	err := t.amend(ctx, func(l fencing.ElectionLease, r fencing.RetainedLease) (fencing.Intent, bool, error) {
		epoch = t.facts().Epoch
		return fencing.Restamp(l, r, t.facts())
	})
	if err != nil {
		return fmt.Errorf("record the raised epoch: %w", err)
	}
	t.stamp(epoch)
	return nil
}

type raising func(l fencing.ElectionLease, t fencing.Term, floor uint64) (uint64, error)

func (t *Term) raise(ctx context.Context, floor uint64, decide raising) error {
	if err := t.acts.Acquire(ctx, allActs); err != nil {
		return err
	}
	defer t.acts.Release(allActs)
	var next uint64
	err := retryConflicts(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, t.settings.callLimit())
		defer cancel()
		return t.lock.change(ctx, func(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			var err error
			next, err = decide(record.ElectionLease(lease), t.facts(), floor)
			if err != nil || next == t.facts().Epoch {
				return nil, err
			}
			return record.WithEpoch(lease, next, t.settings.Template), nil
		}, func() { t.setEpoch(next) })
	})
	if err != nil {
		return t.fence(fmt.Errorf("raise the epoch above %d: %w", floor, err))
	}
	return nil
}

// fence ends the term when an act found out that it is over.
func (t *Term) fence(err error) error {
	if errors.Is(err, fencing.ErrFenced) {
		t.end(err)
	}
	return err
}
