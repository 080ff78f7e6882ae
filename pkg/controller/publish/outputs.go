package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// errKept ends a deletion that must not happen.
var errKept = errors.New("kept")

// retry repeats a read, check and write after a conflict. again tells that the
// target must be read live. Its bound is for writers that collide by chance;
// whoever loses that often waits for the next publication.
func (p *Publisher) retry(ctx context.Context, do func(ctx context.Context, again bool) error) error {
	backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}
	var last error
	again := false
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		last = do(ctx, again)
		again = true
		if apierrors.IsConflict(last) || apierrors.IsAlreadyExists(last) {
			return false, nil
		}
		return true, last
	})
	if err != nil && last != nil && ctx.Err() == nil {
		return last
	}
	return err
}

// getOutput reads an output live; nil does not exist.
func (p *Publisher) getOutput(ctx context.Context, name string) (*v1alpha1.HAProxyCfg, error) {
	cfg, err := p.clients.Outputs.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read output %s: %w", name, err)
	}
	return cfg, nil
}

// usable requires an output to be the template's and not to be on its way out.
func (p *Publisher) usable(cfg *v1alpha1.HAProxyCfg) error {
	if cfg.DeletionTimestamp != nil {
		return fmt.Errorf("output %s: %w", cfg.Name, ErrTerminating)
	}
	if !templateOwner(p.settings.Template).controls(cfg) {
		return fmt.Errorf("output %s: %w", cfg.Name, ErrForeign)
	}
	return nil
}

// writable is usable, or without a controller: an owner that was taken off our
// object is put back like anything else.
func (p *Publisher) writable(cfg *v1alpha1.HAProxyCfg) error {
	if cfg.DeletionTimestamp == nil && metav1.GetControllerOf(cfg) == nil {
		return nil
	}
	return p.usable(cfg)
}

// ensureOutput makes the output's object what it should be, without its
// status. current is what was read of it, nil if it does not exist.
func (p *Publisher) ensureOutput(ctx context.Context, current, want *v1alpha1.HAProxyCfg) (stored *v1alpha1.HAProxyCfg, wrote bool, err error) {
	stored = current
	err = p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			var err error
			if stored, err = p.getOutput(ctx, want.Name); err != nil {
				return err
			}
		}
		if stored != nil {
			if err := p.writable(stored); err != nil {
				return err
			}
			if p.usable(stored) == nil && sameOutput(stored, want) {
				return nil
			}
		}
		if err := p.fence.Check(ctx); err != nil {
			return err
		}
		written, err := p.writeOutput(ctx, stored, want)
		if err != nil {
			return explain(err, "write output %s", want.Name)
		}
		stored, wrote = written, true
		return nil
	})
	return stored, wrote, err
}

func (p *Publisher) writeOutput(ctx context.Context, current, want *v1alpha1.HAProxyCfg) (*v1alpha1.HAProxyCfg, error) {
	if current == nil {
		return p.clients.Outputs.Create(ctx, want, metav1.CreateOptions{})
	}
	changed := current.DeepCopy()
	changed.Spec = want.Spec
	changed.Labels = merged(changed.Labels, want.Labels)
	changed.Annotations = merged(changed.Annotations, want.Annotations)
	changed.OwnerReferences = want.OwnerReferences
	return p.clients.Outputs.Update(ctx, changed, metav1.UpdateOptions{})
}

// sameOutput compares what was published, by decoded bytes.
func sameOutput(current, want *v1alpha1.HAProxyCfg) bool {
	if current.Spec.Path != want.Spec.Path || current.Spec.Checksum != want.Spec.Checksum ||
		current.Spec.RetainedPlan != want.Spec.RetainedPlan ||
		!contains(current.Labels, want.Labels) || !contains(current.Annotations, want.Annotations) {
		return false
	}
	stored, err := checkpoint.Load(current.Spec.Content, current.Spec.Compressed, nil)
	if err != nil {
		return false
	}
	wanted, err := checkpoint.Load(want.Spec.Content, want.Spec.Compressed, nil)
	return err == nil && bytes.Equal(stored, wanted)
}

// updateStatus changes an output's status with the resourceVersion it was read
// with. A conflict starts over at a live read, which must still show the same
// publication: status written over another one's spec would bind the wrong set.
func (p *Publisher) updateStatus(ctx context.Context, current *v1alpha1.HAProxyCfg, change func(*v1alpha1.HAProxyCfg) bool) (stored *v1alpha1.HAProxyCfg, wrote bool, err error) {
	published := current
	stored = current
	err = p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			live, err := p.getOutput(ctx, published.Name)
			if err != nil {
				return err
			}
			if live == nil || live.UID != published.UID || live.Spec != published.Spec ||
				live.Annotations[v1alpha1.AnnotationAuxiliarySetID] != published.Annotations[v1alpha1.AnnotationAuxiliarySetID] {
				return errChanged
			}
			if err := p.usable(live); err != nil {
				return err
			}
			stored = live
		}
		changed := stored.DeepCopy()
		if !change(changed) {
			return nil
		}
		if err := p.fence.Check(ctx); err != nil {
			return err
		}
		updated, err := p.clients.Outputs.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		if err != nil {
			return explain(err, "write the status of output %s", published.Name)
		}
		stored, wrote = updated, true
		return nil
	})
	return stored, wrote, err
}
