package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// callLimit bounds one call to the API server, so that a hanging one cannot
// outlive the Lease by which it was allowed.
func (s Settings) callLimit() time.Duration { return s.RenewDeadline / 2 }

func (t *Term) readElection(ctx context.Context) (fencing.ElectionLease, error) {
	if t.settings.Standalone {
		return fencing.ElectionLease{}, nil
	}
	lease, err := t.read(ctx, t.settings.LeaseName)
	return record.ElectionLease(lease), err
}

func (t *Term) readRetained(ctx context.Context) (*coordinationv1.Lease, error) {
	return t.read(ctx, t.settings.retainedLeaseName())
}

// read gives nil for a Lease that does not exist; what that means is decided by
// who needed it.
func (t *Term) read(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, t.settings.callLimit())
	defer cancel()
	lease, err := t.leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lease %s: %w", name, err)
	}
	return lease, nil
}

func (t *Term) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, t.settings.callLimit())
	defer cancel()
	stored, err := t.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("write lease %s: %w", lease.Name, err)
	}
	return stored, nil
}

// retryConflicts starts over at the read after a conflict, a bounded number of
// times. Any other error is the caller's.
func retryConflicts(ctx context.Context, do func(context.Context) error) error {
	backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		if apierrors.IsConflict(last) {
			return false, nil
		}
		return true, last
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// persist repeats a step of the term's start after conflicts and errors that
// may pass. The term has done nothing yet, so waiting costs time only.
func (t *Term) persist(ctx context.Context, do func(context.Context) error) error {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, t.settings.callLimit())
		defer cancel()
		last = do(attempt)
		if last != nil && final(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// final tells the errors that no repetition cures.
func final(err error) bool {
	for _, decided := range []error{
		errAgain, fencing.ErrFenced, fencing.ErrUnreadable, fencing.ErrForeignTemplate, fencing.ErrExhausted,
	} {
		if errors.Is(err, decided) {
			return true
		}
	}
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}
