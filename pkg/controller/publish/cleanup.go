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
		p.statuses.seen(ordinary, found)
		return nil
	}
	unwanted := p.statuses.unwanted(living)
	ordinary, _, err = p.updateStatus(ctx, ordinary, func(cfg *v1alpha1.HAProxyCfg) bool {
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
	left := make([]*child, len(found.order))
	err = inParallel(ctx, len(found.order), func(i int) error {
		key := found.order[i]
		left[i] = found.found[key]
		if !self.controls(left[i]) {
			return nil
		}
		var err error
		if left[i], err = p.removeEntries(ctx, p.kindNamed(key.kind), left[i], unwanted); err != nil {
			return fmt.Errorf("remove entries from %s %s: %w", key.kind, key.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, key := range found.order {
		found.found[key] = left[i]
	}
	p.statuses.seen(ordinary, found)
	return nil
}

// removeEntries gives the object as it is then, nil if it is gone.
func (p *Publisher) removeEntries(ctx context.Context, k childKind, c *child, unwanted func(v1alpha1.PodDeploymentStatus) bool) (*child, error) {
	err := p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			live, err := k.get(ctx, c.GetName())
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
		written, err := k.status().setEntries(ctx, c, kept)
		if err != nil {
			return explain(err, "write the status of %s", c.GetName())
		}
		c = written
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return c, err
}

func without(entries []v1alpha1.PodDeploymentStatus, unwanted func(v1alpha1.PodDeploymentStatus) bool) []v1alpha1.PodDeploymentStatus {
	return slices.DeleteFunc(slices.Clone(entries), unwanted)
}
