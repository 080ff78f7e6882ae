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

// promotion is what a pointer is written by.
type promotion struct {
	receipt receipt
	// ordinary is as it was read before anything was written. Its version makes
	// the promotion lose against whoever promoted since.
	ordinary *v1alpha1.HAProxyCfg
	// checkpoint is verified, and found is the list by which it was.
	checkpoint *v1alpha1.HAProxyCfg
	found      *listed
}

// promote puts a verified checkpoint where its receipt belongs among the
// pointers, in one status update of the ordinary output, and then collects what
// no pointer names.
func (p *Publisher) promote(ctx context.Context, by promotion) (changed bool, err error) {
	cfg := by.checkpoint
	// The intent is read with a check of the term, which this write needs too.
	intent, err := p.readIntent(ctx)
	if err != nil {
		return false, fmt.Errorf("promote checkpoint %s: %w", cfg.Name, err)
	}
	previous, entries := record.Ordinary(by.ordinary)
	keep := checkpoint.KeepRule{IntendedChecksum: intent.Checksum, Reported: p.reported(entries)}
	pointer := checkpoint.Pointer{Name: cfg.Name, UID: string(cfg.UID), Checksum: cfg.Spec.Checksum}
	kept, dropped := p.arrange(by.receipt, pointer, previous, keep)
	if changed = !slices.Equal(kept, previous); changed {
		if err := p.writePointers(ctx, by.ordinary, kept); err != nil {
			return false, fmt.Errorf("promote checkpoint %s: %w", cfg.Name, err)
		}
		p.metrics.DroppedPointers.Add(float64(len(dropped)))
		klog.FromContext(ctx).Info("Promoted a checkpoint", "checkpoint", klog.KObj(cfg), "checksum", cfg.Spec.Checksum, "pointers", len(kept))
		p.collectDue = true
	}
	p.metrics.Pointers.Set(float64(len(kept)))
	p.mu.Lock()
	p.receipts.promoted(by.receipt, cfg.Name, kept)
	p.mu.Unlock()
	if !p.collectDue {
		return changed, nil
	}
	if err := p.collect(ctx, kept, intent.Checksum, by.found); err != nil {
		return changed, fmt.Errorf("collect checkpoints: %w", err)
	}
	p.collectDue = false
	return changed, nil
}

// arrange is the pointer list with a checkpoint at its place in render order.
func (p *Publisher) arrange(r receipt, pointer checkpoint.Pointer, previous []checkpoint.Pointer, keep checkpoint.KeepRule) (kept, dropped []checkpoint.Pointer) {
	others := slices.DeleteFunc(slices.Clone(previous), func(other checkpoint.Pointer) bool { return other.Name == pointer.Name })
	p.mu.Lock()
	place := p.receipts.position(others, r.sequence)
	p.mu.Unlock()
	all := slices.Insert(others, place, pointer)
	return checkpoint.NextPointers(all[0], all[1:], keep)
}

// reported are the checksums that pods report, those that are not written yet
// included.
func (p *Publisher) reported(entries []checkpoint.PodEntry) map[string]bool {
	reported := map[string]bool{}
	for _, entry := range entries {
		reported[entry.Checksum] = true
	}
	for _, entry := range p.statuses.entries {
		reported[entry.Checksum] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, entry := range p.entries {
		reported[entry.Checksum] = true
	}
	return reported
}

func (p *Publisher) writePointers(ctx context.Context, ordinary *v1alpha1.HAProxyCfg, kept []checkpoint.Pointer) error {
	changed := ordinary.DeepCopy()
	changed.Status.RetainedConfigs = make([]v1alpha1.RetainedConfigReference, 0, len(kept))
	for _, pointer := range kept {
		changed.Status.RetainedConfigs = append(changed.Status.RetainedConfigs, v1alpha1.RetainedConfigReference{
			Name: pointer.Name, UID: types.UID(pointer.UID), Checksum: pointer.Checksum,
		})
	}
	written, err := p.clients.Outputs.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return explain(err, "write the pointers of output %s", ordinary.Name)
	}
	p.statuses.wrote(written)
	return nil
}

// collect deletes checkpoints that no pointer names, and then shared files that
// no remaining checkpoint references. A complete checkpoint of the intended
// output stays even without a pointer, as after a deletion of the list. Files
// that a checkpoint of HAPTIC 0.5 or 0.6 owns go with their owner. The files come from the list made before
// the references are read here, so that one created since is left for the next
// time.
func (p *Publisher) collect(ctx context.Context, pointers []checkpoint.Pointer, intended string, found *listed) error {
	stored, err := p.listCheckpoints(ctx)
	if err != nil {
		return err
	}
	if stored, err = p.withUnlisted(ctx, stored, pointers); err != nil {
		return err
	}
	named := map[objectKey]bool{}
	committed := true
	for _, cfg := range stored {
		if !isPromoted(pointers, cfg) && !(cfg.Spec.Checksum == intended && isCommitted(cfg)) {
			gone, err := p.deleteCheckpoint(ctx, cfg)
			if err != nil {
				return fmt.Errorf("delete checkpoint %s: %w", cfg.Name, err)
			}
			if gone {
				continue
			}
		}
		if !isCommitted(cfg) {
			committed = false
			continue
		}
		for key := range referenced(cfg.Status.AuxiliaryFiles) {
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

// withUnlisted leaves out what is not the template's and adds promoted
// checkpoints that lost the label by which they are listed: their files must not
// be taken for garbage.
func (p *Publisher) withUnlisted(ctx context.Context, listed []*v1alpha1.HAProxyCfg, pointers []checkpoint.Pointer) ([]*v1alpha1.HAProxyCfg, error) {
	var all []*v1alpha1.HAProxyCfg
	known := map[string]bool{}
	for _, cfg := range listed {
		known[cfg.Name] = true
		if templateOwner(p.settings.Template).controls(cfg) || isPromoted(pointers, cfg) {
			all = append(all, cfg)
		}
	}
	for _, pointer := range pointers {
		if known[pointer.Name] {
			continue
		}
		cfg, err := p.getOutput(ctx, pointer.Name)
		if err != nil {
			return nil, err
		}
		if cfg != nil && isPromoted(pointers, cfg) {
			all = append(all, cfg)
		}
	}
	return all, nil
}

// isCommitted tells whether a checkpoint's references are known. A list of a
// later release may reference any file, so with one they are not.
func isCommitted(cfg *v1alpha1.HAProxyCfg) bool {
	refs := cfg.Status.AuxiliaryFiles
	return refs != nil && refs.SetID == cfg.Annotations[v1alpha1.AnnotationAuxiliarySetID] && len(refs.Unsupported) == 0
}

func (p *Publisher) collectShared(ctx context.Context, found *listed, named map[objectKey]bool) error {
	return p.deleteChildren(ctx, found, func(key objectKey, c *child) bool {
		return !named[key] && p.isShared(c)
	})
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
