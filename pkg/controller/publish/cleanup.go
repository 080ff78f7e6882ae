package publish

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// sweep reads the ordinary output and its files live, one list a kind, marks
// the entries that they no longer show, and takes off those of pods that are
// gone. Checkpoints keep theirs: a receipt is history. A nil fleet is not known
// yet and removes nothing.
func (p *Publisher) sweep(ctx context.Context, living map[string]string) error {
	ordinary, err := p.readOrdinary(ctx)
	if err != nil {
		return err
	}
	var kinds []childKind
	for _, k := range p.kinds {
		if k.status() != nil {
			kinds = append(kinds, k)
		}
	}
	found, err := p.listOrdinary(ctx, ordinary.Name, kinds)
	if err != nil {
		return err
	}
	p.statuses.compare(ordinary, found)
	if living == nil {
		return nil
	}
	unwanted := p.statuses.unwanted(living)
	_, _, err = p.updateStatus(ctx, ordinary, func(cfg *v1alpha1.HAProxyCfg) bool {
		kept := without(cfg.Status.DeployedToPods, unwanted)
		if len(kept) == len(cfg.Status.DeployedToPods) {
			return false
		}
		cfg.Status.DeployedToPods = kept
		return true
	})
	if err != nil {
		return err
	}
	self := outputOwner(ordinary)
	return inParallel(ctx, len(found.order), func(i int) error {
		key := found.order[i]
		c := found.found[key]
		if !self.controls(c) {
			return nil
		}
		if err := p.removeEntries(ctx, p.kindNamed(key.kind), c, unwanted); err != nil {
			return fmt.Errorf("remove entries from %s %s: %w", key.kind, key.name, err)
		}
		return nil
	})
}

func (p *Publisher) removeEntries(ctx context.Context, k childKind, c *child, unwanted func(v1alpha1.PodDeploymentStatus) bool) error {
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
		kept := without(c.entries, unwanted)
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

func without(entries []v1alpha1.PodDeploymentStatus, unwanted func(v1alpha1.PodDeploymentStatus) bool) []v1alpha1.PodDeploymentStatus {
	return slices.DeleteFunc(slices.Clone(entries), unwanted)
}
