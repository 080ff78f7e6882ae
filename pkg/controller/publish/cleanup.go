package publish

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// removeGone takes the entries of pods that are gone off the ordinary output
// and its files. Checkpoints keep theirs: a receipt is history.
func (p *Publisher) removeGone(ctx context.Context, living map[string]string) error {
	ordinary, err := p.readOrdinary(ctx)
	if err != nil {
		return err
	}
	_, _, err = p.updateStatus(ctx, ordinary, func(cfg *v1alpha1.HAProxyCfg) bool {
		kept := withoutGone(cfg.Status.DeployedToPods, living)
		if len(kept) == len(cfg.Status.DeployedToPods) {
			return false
		}
		cfg.Status.DeployedToPods = kept
		return true
	})
	if err != nil {
		return err
	}
	for _, k := range p.kinds {
		if k.status() == nil {
			continue
		}
		found, err := k.list(ctx, labels.SelectorFromSet(ordinaryLabels(ordinary.Name)).String())
		if err != nil {
			return fmt.Errorf("list %s objects: %w", k.name(), err)
		}
		for _, c := range found {
			if !outputOwner(ordinary).controls(c) {
				continue
			}
			if err := p.removeGoneFrom(ctx, k, c, living); err != nil {
				return fmt.Errorf("remove entries from %s %s: %w", k.name(), c.GetName(), err)
			}
		}
	}
	return nil
}

func (p *Publisher) removeGoneFrom(ctx context.Context, k childKind, c *child, living map[string]string) error {
	return p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			live, err := k.get(ctx, c.GetName())
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			c = live
		}
		kept := withoutGone(c.entries, living)
		if len(kept) == len(c.entries) {
			return nil
		}
		if err := p.fence.Check(ctx); err != nil {
			return err
		}
		_, err := k.status().setEntries(ctx, c, kept)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func withoutGone(entries []v1alpha1.PodDeploymentStatus, living map[string]string) []v1alpha1.PodDeploymentStatus {
	return slices.DeleteFunc(slices.Clone(entries), func(entry v1alpha1.PodDeploymentStatus) bool {
		return isGone(entry, living)
	})
}
