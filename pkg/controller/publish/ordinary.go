package publish

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// publishOrdinary stores an accepted output as the view of what is rendered:
// one list per kind, then the object, its files, one status update that commits
// the references, and only then the deletion of files that nothing names.
func (p *Publisher) publishOrdinary(ctx context.Context, e *encoded) (changed bool, err error) {
	want := buildOrdinary(e, p.settings.Template)
	current, err := p.getOutput(ctx, want.Name)
	if err != nil {
		return false, err
	}
	found, err := p.listOrdinary(ctx, want.Name, p.kinds)
	if err != nil {
		return false, err
	}
	before := map[objectKey]bool{}
	if current != nil {
		before = referenced(current.Status.AuxiliaryFiles)
	}
	cfg, wrote, err := p.ensureOutput(ctx, current, want)
	if err != nil {
		return wrote, err
	}
	name := func(f *file) string {
		return checkpoint.OrdinaryChildName(f.Descriptor, f.checksum, cfg.Name, string(cfg.UID))
	}
	children, written, err := p.ensureChildren(ctx, e, childSet{
		owner: outputOwner(cfg), labels: ordinaryLabels(cfg.Name), claim: rand.Text(),
		name: name, committed: before, listed: found,
	})
	changed = wrote || written > 0
	if err != nil {
		return changed, err
	}
	refs := e.references(cfg.Namespace, name)
	cfg, wrote, err = p.updateStatus(ctx, cfg, func(c *v1alpha1.HAProxyCfg) bool {
		return setReferences(c, refs)
	})
	changed = changed || wrote
	if err != nil {
		return changed, err
	}
	p.statuses.published(cfg, e, name, children)
	p.statuses.compare(cfg, found)
	// The output's own files that were listed before the first write and that the
	// committed references do not name go, those of older forms included.
	named, self := referenced(refs), outputOwner(cfg)
	if err := p.deleteChildren(ctx, found, func(key objectKey, c *child) bool {
		return !named[key] && self.controls(c)
	}); err != nil {
		return changed, fmt.Errorf("delete files of earlier outputs: %w", err)
	}
	return changed, nil
}

// setReferences commits references, unless they are committed already.
func setReferences(cfg *v1alpha1.HAProxyCfg, refs *v1alpha1.AuxiliaryFileReferences) bool {
	if reflect.DeepEqual(cfg.Status.AuxiliaryFiles, refs) && cfg.Status.ObservedGeneration == cfg.Generation {
		return false
	}
	cfg.Status.AuxiliaryFiles = refs.DeepCopy()
	cfg.Status.ObservedGeneration = cfg.Generation
	return true
}

// referenced are the objects that committed references name.
func referenced(refs *v1alpha1.AuxiliaryFileReferences) map[objectKey]bool {
	named := map[objectKey]bool{}
	if refs == nil {
		return named
	}
	for _, list := range [][]v1alpha1.FileReference{
		refs.MapFiles, refs.SSLCertificates, refs.SSLCaFiles, refs.GeneralFiles, refs.CRTListFiles,
	} {
		for _, ref := range list {
			named[objectKey{kind: ref.Kind, name: ref.Name}] = true
		}
	}
	return named
}
