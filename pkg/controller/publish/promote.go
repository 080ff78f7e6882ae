package publish

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// promote makes a verified checkpoint the newest pointer, in one status update
// of the ordinary output, and then collects what no pointer names. found is the
// list by which the checkpoint was verified.
func (p *Publisher) promote(ctx context.Context, ordinary, cfg *v1alpha1.HAProxyCfg, found *listed) (changed bool, err error) {
	newest := checkpoint.Pointer{Name: cfg.Name, UID: string(cfg.UID), Checksum: cfg.Spec.Checksum}
	var kept []checkpoint.Pointer
	err = p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			var err error
			if ordinary, err = p.readOrdinary(ctx); err != nil {
				return err
			}
		}
		// The intent is read with a check of the term, which this write needs too.
		intent, err := p.fence.Intent(ctx)
		if err != nil {
			return err
		}
		previous, entries := record.Ordinary(ordinary)
		keep := checkpoint.KeepRule{IntendedChecksum: intent.Checksum, Reported: map[string]bool{}}
		for _, entry := range entries {
			keep.Reported[entry.Checksum] = true
		}
		var dropped []checkpoint.Pointer
		kept, dropped = checkpoint.NextPointers(newest, previous, keep)
		if slices.Equal(kept, previous) {
			return nil
		}
		if err := p.writePointers(ctx, ordinary, kept); err != nil {
			return err
		}
		p.metrics.DroppedPointers.Add(float64(len(dropped)))
		changed = true
		return nil
	})
	if err != nil {
		return changed, fmt.Errorf("promote checkpoint %s: %w", cfg.Name, err)
	}
	p.metrics.Pointers.Set(float64(len(kept)))
	if changed {
		klog.FromContext(ctx).Info("Promoted a checkpoint", "checkpoint", klog.KObj(cfg), "checksum", cfg.Spec.Checksum, "pointers", len(kept))
		p.collectDue = true
	}
	if !p.collectDue {
		return changed, nil
	}
	if err := p.collect(ctx, kept, found); err != nil {
		return changed, fmt.Errorf("collect checkpoints: %w", err)
	}
	p.collectDue = false
	return changed, nil
}

func (p *Publisher) writePointers(ctx context.Context, ordinary *v1alpha1.HAProxyCfg, kept []checkpoint.Pointer) error {
	changed := ordinary.DeepCopy()
	changed.Status.RetainedConfigs = make([]v1alpha1.RetainedConfigReference, 0, len(kept))
	for _, pointer := range kept {
		changed.Status.RetainedConfigs = append(changed.Status.RetainedConfigs, v1alpha1.RetainedConfigReference{
			Name: pointer.Name, UID: types.UID(pointer.UID), Checksum: pointer.Checksum,
		})
	}
	_, err := p.clients.Outputs.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return explain(err, "write the pointers of output %s", ordinary.Name)
	}
	return nil
}

// collect deletes checkpoints that no pointer names, and then shared files that
// no remaining checkpoint references. The files come from the list made before
// the references are read here, so that one created since is left for the next
// time.
func (p *Publisher) collect(ctx context.Context, pointers []checkpoint.Pointer, found *listed) error {
	stored, err := p.listCheckpoints(ctx)
	if err != nil {
		return err
	}
	named := map[objectKey]bool{}
	committed := true
	for _, cfg := range stored {
		if !templateOwner(p.settings.Template).controls(cfg) {
			continue
		}
		if !isPromoted(pointers, cfg) {
			gone, err := p.deleteCheckpoint(ctx, cfg)
			if err != nil {
				return fmt.Errorf("delete checkpoint %s: %w", cfg.Name, err)
			}
			if gone {
				continue
			}
		}
		refs := cfg.Status.AuxiliaryFiles
		// A list of a later release may reference any file, so such a checkpoint
		// counts as one whose references are not known yet.
		if refs == nil || refs.SetID != cfg.Annotations[v1alpha1.AnnotationAuxiliarySetID] || len(refs.Unsupported) > 0 {
			committed = false
			continue
		}
		for key := range referenced(refs) {
			named[key] = true
		}
	}
	if !committed {
		// What that checkpoint will reference cannot be known yet.
		klog.FromContext(ctx).V(2).Info("Left shared files alone, for a checkpoint is not committed")
		return nil
	}
	return p.collectShared(ctx, found, named)
}

func (p *Publisher) collectShared(ctx context.Context, found *listed, named map[objectKey]bool) error {
	self := templateOwner(p.settings.Template)
	for _, key := range found.order {
		c := found.found[key]
		if named[key] || c.GetDeletionTimestamp() != nil || !self.controls(c) {
			continue
		}
		if err := p.deleteChild(ctx, p.kindNamed(key.kind), c); err != nil {
			return fmt.Errorf("delete %s %s: %w", key.kind, key.name, err)
		}
	}
	return nil
}

// deleteCheckpoint deletes a checkpoint as it was listed. A conflict means that
// somebody uses it again; it then counts as remaining.
func (p *Publisher) deleteCheckpoint(ctx context.Context, cfg *v1alpha1.HAProxyCfg) (gone bool, err error) {
	if cfg.DeletionTimestamp != nil {
		return false, nil
	}
	if err := p.fence.Check(ctx); err != nil {
		return false, err
	}
	err = p.clients.Outputs.Delete(ctx, cfg.Name, deleteExactly(cfg))
	switch {
	case err == nil:
		p.metrics.Collected.WithLabelValues(v1alpha1.KindCfg).Inc()
		return true, nil
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsConflict(err):
		return false, nil
	}
	return false, err
}
