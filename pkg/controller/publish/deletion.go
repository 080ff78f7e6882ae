package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// deleteChildren deletes what was listed and is garbage.
func (p *Publisher) deleteChildren(ctx context.Context, found *listed, garbage func(objectKey, *child) bool) error {
	var candidates []objectKey
	for _, key := range found.order {
		if c := found.found[key]; c.GetDeletionTimestamp() == nil && garbage(key, c) {
			candidates = append(candidates, key)
		}
	}
	return inParallel(ctx, len(candidates), func(i int) error {
		key := candidates[i]
		if err := p.deleteChild(ctx, p.kindNamed(key.kind), found.found[key]); err != nil {
			return fmt.Errorf("delete %s %s: %w", key.kind, key.name, err)
		}
		return nil
	})
}

// deleteChild deletes an object that nothing references, as it was judged. Only
// a write that left its claim alone, such as a status, may be in between: a new
// claim means that a publication is about to reference it.
func (p *Publisher) deleteChild(ctx context.Context, k childKind, judged *child) error {
	current := judged
	err := p.retry(ctx, func(ctx context.Context, again bool) error {
		if again {
			live, err := k.get(ctx, judged.GetName())
			if err != nil {
				return err
			}
			if live.GetUID() != judged.GetUID() || live.claim() != judged.claim() {
				klog.FromContext(ctx).V(2).Info("Kept a file that was claimed again", "kind", k.name(), "object", klog.KObj(judged))
				return errKept
			}
			current = live
		}
		if err := p.fence.Check(ctx); err != nil {
			return err
		}
		return k.delete(ctx, current)
	})
	switch {
	case err == nil:
		p.metrics.Collected.WithLabelValues(k.name()).Inc()
	case apierrors.IsNotFound(err), errors.Is(err, errKept):
		return nil
	}
	return err
}

// isShared tells whether an object is one that this template's checkpoints
// share: owned by the template, and by nothing else, and ours by its label or
// in the form of any release by its name, which carries its content's digest.
// Which flags HAPTIC 0.7 sets on the owner is not published.
func (p *Publisher) isShared(c *child) bool {
	owners := c.GetOwnerReferences()
	if len(owners) != 1 || !templateOwner(p.settings.Template).is(&owners[0]) {
		return false
	}
	if c.GetLabels()[v1alpha1.LabelRetainedFor] == p.settings.Template.UID {
		return true
	}
	suffix := checkpoint.ContentSuffix(c.stored.Kind, c.stored.Path, c.stored.Checksum, c.stored.Family.IsCA())
	return strings.Contains(c.GetName(), suffix)
}

// deleteExactly lets a deletion hit nothing but what was judged.
func deleteExactly(object metav1.Object) metav1.DeleteOptions {
	uid, version, background := object.GetUID(), object.GetResourceVersion(), metav1.DeletePropagationBackground
	return metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &background,
	}
}
