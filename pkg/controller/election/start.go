package election

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// maxClaimSteps bounds one claim: create, lift, replace, adopt and the repeats
// that conflicts cost. A claim that needs more is being fought over.
const maxClaimSteps = 20

var (
	errUnsettled = errors.New("claim did not settle")
	// errAgain says that a step was done or lost a race and the next one is due.
	errAgain = errors.New("claim has another step")
)

// newTerm is a term that has won the Lease and claimed nothing.
func newTerm(e *Election, l *lock, won fencing.ElectionLease, end context.CancelCauseFunc) *Term {
	return &Term{
		settings: e.settings, leases: e.leases, metrics: e.metrics, lock: l, end: end,
		acts: semaphore.NewWeighted(allActs),
		self: fencing.Term{
			TemplateUID: e.settings.Template.UID, TemplateName: e.settings.Template.Name,
			Holder: e.settings.Identity, LeaseUID: won.UID, Transitions: won.Transitions,
			Claim: rand.Text(), Standalone: e.settings.Standalone,
		},
	}
}

// start claims the epoch and R, and removes the copy of the intent that an
// earlier release left. Until it returns nothing may be recorded or recovered.
func (t *Term) start(ctx context.Context, templates TemplateClient) error {
	if !t.settings.Standalone {
		if err := t.claimEpoch(ctx, templates); err != nil {
			return fmt.Errorf("claim an epoch: %w", err)
		}
	}
	for range maxClaimSteps {
		adopted, err := t.claimRetained(ctx, templates)
		if err != nil {
			return fmt.Errorf("claim the retained-state lease: %w", err)
		}
		changed, err := t.removeCopy(ctx, adopted)
		if err != nil {
			return fmt.Errorf("remove the copy of the intent: %w", err)
		}
		if !changed {
			t.stamp(t.facts().Epoch)
			return nil
		}
	}
	return errUnsettled
}

func (t *Term) claimEpoch(ctx context.Context, templates TemplateClient) error {
	return t.persist(ctx, func(ctx context.Context) error {
		var epoch uint64
		return t.lock.change(ctx, func(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			l := record.ElectionLease(lease)
			living, err := t.living(ctx, templates, l, fencing.RetainedLease{})
			if err != nil {
				return nil, err
			}
			if epoch, err = fencing.ClaimEpoch(l, t.facts(), living); err != nil {
				return nil, err
			}
			return record.WithEpoch(lease, epoch, t.settings.Template), nil
		}, func() { t.setEpoch(epoch) })
	})
}

func (t *Term) claimRetained(ctx context.Context, templates TemplateClient) (adopted string, err error) {
	for range maxClaimSteps {
		err = t.persist(ctx, func(ctx context.Context) error {
			var err error
			adopted, err = t.claimStep(ctx, templates)
			return err
		})
		if !errors.Is(err, errAgain) {
			return adopted, err
		}
	}
	return "", errUnsettled
}

// claimStep looks, decides and does one step.
func (t *Term) claimStep(ctx context.Context, templates TemplateClient) (adopted string, err error) {
	lease, err := t.readRetained(ctx)
	if err != nil {
		return "", err
	}
	l, err := t.readElection(ctx)
	if err != nil {
		return "", err
	}
	r := record.RetainedLease(lease)
	living, err := t.living(ctx, templates, l, r)
	if err != nil {
		return "", err
	}
	step, err := fencing.ClaimRetained(fencing.ClaimInput{Retained: r, Election: l, Term: t.facts(), Living: living})
	if err != nil {
		return "", err
	}
	switch step.Step {
	case fencing.StepCreate:
		fresh := record.NewRetainedLease(t.settings.Namespace, t.settings.retainedLeaseName(), t.settings.Template, step.Intent)
		_, err = t.leases.Create(ctx, fresh, metav1.CreateOptions{})
	case fencing.StepWrite:
		_, err = t.update(ctx, record.WithIntent(lease, step.Intent))
	case fencing.StepReplace:
		return "", again(t.deleteRetained(ctx, r))
	case fencing.StepLift:
		return "", again(t.raise(ctx, step.Floor, fencing.Lift))
	}
	if err == nil && t.settings.Standalone {
		t.setEpoch(step.Intent.Epoch)
	}
	if apierrors.IsAlreadyExists(err) {
		err = errAgain
	}
	return step.Adopted, err
}

func again(err error) error {
	if err == nil {
		return errAgain
	}
	return err
}

func (t *Term) deleteRetained(ctx context.Context, r fencing.RetainedLease) error {
	uid := types.UID(r.UID)
	err := t.leases.Delete(ctx, t.settings.retainedLeaseName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &r.ResourceVersion},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeCopy reports whether another copy than the adopted one is there.
func (t *Term) removeCopy(ctx context.Context, adopted string) (changed bool, err error) {
	if t.settings.Standalone {
		return false, nil
	}
	err = t.persist(ctx, func(ctx context.Context) error {
		return t.lock.change(ctx, func(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			remove, other, err := fencing.RemoveCopy(record.ElectionLease(lease), t.facts(), adopted)
			changed = other
			if err != nil || !remove {
				return nil, err
			}
			return record.WithoutIntent(lease), nil
		}, nil)
	})
	return changed, err
}

// living asks which templates exist, if the Leases name another one.
func (t *Term) living(ctx context.Context, templates TemplateClient, l fencing.ElectionLease, r fencing.RetainedLease) (fencing.Living, error) {
	if len(fencing.ForeignUIDs(l, r, t.settings.Template.UID)) == 0 {
		return nil, nil
	}
	list, err := templates.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the templates that a lease may belong to: %w", err)
	}
	living := fencing.Living{}
	for i := range list.Items {
		living[string(list.Items[i].UID)] = list.Items[i].Name
	}
	return living, nil
}
