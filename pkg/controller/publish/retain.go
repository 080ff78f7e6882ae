package publish

import (
	"context"
	"crypto/rand"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// publishCheckpoint stores an acknowledged output completely, reads it back,
// verifies it, and only then lets the pointer list name it. Interrupted
// anywhere, the pointers that were there stay usable.
func (p *Publisher) publishCheckpoint(ctx context.Context, r receipt, e *encoded) (changed bool, err error) {
	ordinary, err := p.readOrdinary(ctx)
	if err != nil {
		return false, err
	}
	pointers, _ := record.Ordinary(ordinary)
	want := buildCheckpoint(e, p.settings.Template, checkpoint.CheckpointName(p.settings.Template.Name, e.checksum, e.payload))
	current, err := p.findCheckpoint(ctx, pointers, want)
	if err != nil {
		return false, err
	}
	var found *listed
	if current != nil && isPromoted(pointers, current) {
		// Most receipts are for what is stored already: verifying it is enough.
		if found, err = p.listShared(ctx); err != nil {
			return false, err
		}
		if p.verify(current, found) == nil {
			return p.promote(ctx, promotion{receipt: r, ordinary: ordinary, checkpoint: current, found: found})
		}
		klog.FromContext(ctx).Info("Found a promoted checkpoint damaged, will publish it again", "checkpoint", klog.KObj(current))
	}
	cfg, err := p.storeCheckpoint(ctx, storing{
		receipt: r, encoded: e, current: current, want: want, pointers: pointers, listed: found,
	})
	if err != nil {
		return true, err
	}
	// Read back live: what counts is what is stored, not what was sent.
	if cfg, err = p.getOutput(ctx, cfg.Name); err != nil {
		return true, err
	}
	if cfg == nil {
		return true, fmt.Errorf("%w: it is gone", ErrNotVerified)
	}
	if found, err = p.listShared(ctx); err != nil {
		return true, err
	}
	if err := p.verify(cfg, found); err != nil {
		return true, err
	}
	_, err = p.promote(ctx, promotion{receipt: r, ordinary: ordinary, checkpoint: cfg, found: found})
	return true, err
}

func (p *Publisher) readOrdinary(ctx context.Context) (*v1alpha1.HAProxyCfg, error) {
	ordinary, err := p.getOutput(ctx, checkpoint.OrdinaryName(p.settings.Template.Name))
	if err != nil {
		return nil, err
	}
	if ordinary == nil {
		return nil, errNoOrdinary
	}
	return ordinary, p.usable(ordinary)
}

// findCheckpoint looks for a checkpoint of the output that exists: under the
// name that want has, or promoted under one that another compressor gave it.
// want then takes that one's name and payload.
func (p *Publisher) findCheckpoint(ctx context.Context, pointers []checkpoint.Pointer, want *v1alpha1.HAProxyCfg) (*v1alpha1.HAProxyCfg, error) {
	for _, pointer := range pointers {
		if pointer.Checksum != want.Spec.Checksum || pointer.Name == want.Name {
			continue
		}
		cfg, err := p.getOutput(ctx, pointer.Name)
		if err != nil {
			return nil, err
		}
		if cfg == nil || string(cfg.UID) != pointer.UID || p.usable(cfg) != nil ||
			cfg.Name != checkpoint.CheckpointName(p.settings.Template.Name, want.Spec.Checksum, cfg.Spec.RetainedPlan) {
			continue
		}
		// An unreadable payload is no equal one, and falls to collection.
		if equal, err := checkpoint.EqualPayload(cfg.Spec.RetainedPlan, want.Spec.RetainedPlan); err == nil && equal {
			want.Name, want.Spec.RetainedPlan = cfg.Name, cfg.Spec.RetainedPlan
			return cfg, nil
		}
	}
	return p.getOutput(ctx, want.Name)
}

// storing is what storing one checkpoint goes by.
type storing struct {
	receipt  receipt
	encoded  *encoded
	current  *v1alpha1.HAProxyCfg
	want     *v1alpha1.HAProxyCfg
	pointers []checkpoint.Pointer
	// listed is nil if the children were not listed yet.
	listed *listed
}

// storeCheckpoint writes the object, its files, and in one status write the
// references and the receipt.
func (p *Publisher) storeCheckpoint(ctx context.Context, s storing) (*v1alpha1.HAProxyCfg, error) {
	template, claim := p.settings.Template, rand.Text()
	if s.listed == nil {
		var err error
		if s.listed, err = p.listShared(ctx); err != nil {
			return nil, err
		}
	}
	committed, err := p.promotedReferences(ctx, s.pointers)
	if err != nil {
		return nil, err
	}
	if s.current != nil && !isPromoted(s.pointers, s.current) {
		// It may be about to be collected; a fresh claim makes that deletion lose.
		s.want.Annotations[v1alpha1.AnnotationAuxiliaryClaim] = claim
	}
	cfg, _, err := p.ensureOutput(ctx, s.current, s.want)
	if err != nil {
		return nil, err
	}
	name := func(f *file) string {
		return checkpoint.SharedChildName(f.Descriptor, f.checksum, template.Name, template.UID)
	}
	if _, _, err := p.ensureChildren(ctx, s.encoded, childSet{
		owner: templateOwner(template), labels: sharedLabels(template), claim: claim,
		name: name, committed: committed, listed: s.listed,
	}); err != nil {
		return nil, err
	}
	refs := s.encoded.references(cfg.Namespace, name)
	cfg, _, err = p.updateStatus(ctx, cfg, func(c *v1alpha1.HAProxyCfg) bool {
		changed := setReferences(c, refs)
		return setReceipt(c, s.receipt, s.encoded) || changed
	})
	return cfg, err
}

// setReceipt gives a checkpoint exactly one entry. One that already proves the
// output stays: it is history, its pod may be gone.
func setReceipt(cfg *v1alpha1.HAProxyCfg, r receipt, e *encoded) bool {
	stored := record.Checkpoint(cfg).Receipts
	if len(stored) == 1 && stored[0].Confirms(e.checksum, e.output.Plan.ID) {
		return false
	}
	// A receipt that proves the output carries no error.
	cfg.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{record.PodStatus(r.entry)}
	return true
}

func isPromoted(pointers []checkpoint.Pointer, cfg *v1alpha1.HAProxyCfg) bool {
	for _, pointer := range pointers {
		if pointer.Name == cfg.Name && pointer.UID == string(cfg.UID) {
			return true
		}
	}
	return false
}

// promotedReferences are the children that promoted checkpoints name: no
// deletion can be under way for them.
func (p *Publisher) promotedReferences(ctx context.Context, pointers []checkpoint.Pointer) (map[objectKey]bool, error) {
	named := map[objectKey]bool{}
	if len(pointers) == 0 {
		return named, nil
	}
	stored, err := p.listCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	for _, cfg := range stored {
		if !isPromoted(pointers, cfg) || p.usable(cfg) != nil {
			continue
		}
		for key := range referenced(cfg.Status.AuxiliaryFiles) {
			named[key] = true
		}
	}
	return named, nil
}

func (p *Publisher) listCheckpoints(ctx context.Context) ([]*v1alpha1.HAProxyCfg, error) {
	list, err := p.clients.Outputs.List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(sharedLabels(p.settings.Template)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return pointersTo(list.Items), nil
}

// verify requires a checkpoint to be complete, sound and acknowledged, as a
// reader that saw it promoted would judge.
func (p *Publisher) verify(cfg *v1alpha1.HAProxyCfg, found *listed) error {
	stored := record.Checkpoint(cfg)
	pointer := checkpoint.Pointer{Name: cfg.Name, UID: string(cfg.UID), Checksum: cfg.Spec.Checksum}
	verdict, output := checkpoint.Verify(p.settings.Template, stored, found.stored(), &pointer)
	if verdict.State != checkpoint.Verified || !verdict.Acknowledged || output == nil {
		return fmt.Errorf("%w: %s: %s", ErrNotVerified, verdict.Reason, verdict.Message)
	}
	return nil
}
