package record

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// AnnotationLeaderTemplate is written to the leader-election Lease with the
// epoch: UID and name of the template that the term leads. Two templates that
// were given one Lease find out by it. Earlier releases neither write nor read it.
const AnnotationLeaderTemplate = "haproxy-haptic.org/leader-template"

// ElectionLease translates the leader-election Lease. Nil is a Lease that does
// not exist.
func ElectionLease(lease *coordinationv1.Lease) fencing.ElectionLease {
	if lease == nil {
		return fencing.ElectionLease{}
	}
	l := fencing.ElectionLease{
		Exists:          true,
		UID:             string(lease.UID),
		ResourceVersion: lease.ResourceVersion,
		Template:        parseTemplate(lease.Annotations[AnnotationLeaderTemplate]),
		Copy:            fencing.ReadIntent(lease.Annotations[v1alpha1.AnnotationDeploymentIntent]),
	}
	if lease.Spec.HolderIdentity != nil {
		l.Holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseTransitions != nil {
		l.Transitions = *lease.Spec.LeaseTransitions
	}
	if text, ok := lease.Annotations[v1alpha1.AnnotationLeaderEpoch]; ok {
		l.EpochPresent = true
		epoch, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			l.EpochErr = fmt.Errorf("%w: annotation %s is not a decimal epoch", fencing.ErrUnreadable, v1alpha1.AnnotationLeaderEpoch)
		}
		l.Epoch = epoch
	}
	if l.EpochErr != nil {
		l.Epoch = 0
	}
	return l
}

// RetainedLease translates the retained-state Lease. Nil is a Lease that does
// not exist. An owner counts with its group, version and kind only.
func RetainedLease(lease *coordinationv1.Lease) fencing.RetainedLease {
	if lease == nil {
		return fencing.RetainedLease{}
	}
	r := fencing.RetainedLease{
		Exists:          true,
		Terminating:     lease.DeletionTimestamp != nil,
		UID:             string(lease.UID),
		ResourceVersion: lease.ResourceVersion,
		Intent:          fencing.ReadIntent(lease.Annotations[v1alpha1.AnnotationDeploymentIntent]),
	}
	owner := metav1.GetControllerOf(lease)
	if owner != nil && owner.APIVersion == v1alpha1.SchemeGroupVersion.String() && owner.Kind == v1alpha1.KindTemplateConfig {
		r.Owner = fencing.TemplateRef{Name: owner.Name, UID: string(owner.UID)}
	}
	return r
}

// LeaseTimes are when the present holder took a leader-election Lease, and when
// a retained-state Lease was last written; zero for the other sort, whose last
// write is a renewal.
func LeaseTimes(lease *coordinationv1.Lease) (acquired, recorded time.Time) {
	if lease.Spec.AcquireTime != nil {
		acquired = lease.Spec.AcquireTime.Time
	}
	if RetainedLease(lease).Owner.UID != "" {
		recorded = ModifiedAt(&lease.ObjectMeta, true)
	}
	return acquired, recorded
}

// NewRetainedLease is the retained-state Lease before it is stored: owned by
// the template, so that it goes with it, and holding the intent.
func NewRetainedLease(namespace, name string, template fencing.TemplateRef, intent fencing.Intent) *coordinationv1.Lease {
	controller := true
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace,
		Name:      name,
		Annotations: map[string]string{
			v1alpha1.AnnotationDeploymentIntent: intent.Encode(),
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(),
			Kind:       v1alpha1.KindTemplateConfig,
			Name:       template.Name,
			UID:        types.UID(template.UID),
			Controller: &controller,
		}},
	}}
}

// WithIntent is a copy of the Lease that holds the intent.
func WithIntent(lease *coordinationv1.Lease, intent fencing.Intent) *coordinationv1.Lease {
	return withAnnotations(lease, map[string]string{v1alpha1.AnnotationDeploymentIntent: intent.Encode()})
}

// Renumbered is a copy of a retained-state Lease that differs in a number without
// a meaning. The server keeps the version of an object that a write does not
// change, and then an earlier write for that version may still land.
func Renumbered(lease *coordinationv1.Lease) *coordinationv1.Lease {
	changed, next := lease.DeepCopy(), int32(1)
	if n := changed.Spec.LeaseTransitions; n != nil && *n < math.MaxInt32 {
		next = *n + 1
	}
	changed.Spec.LeaseTransitions = &next
	return changed
}

// WithoutIntent is a copy of the Lease that holds no intent.
func WithoutIntent(lease *coordinationv1.Lease) *coordinationv1.Lease {
	changed := lease.DeepCopy()
	delete(changed.Annotations, v1alpha1.AnnotationDeploymentIntent)
	return changed
}

// WithEpoch is a copy of the leader-election Lease that holds the epoch and
// names the template it was claimed for.
func WithEpoch(lease *coordinationv1.Lease, epoch uint64, template fencing.TemplateRef) *coordinationv1.Lease {
	return withAnnotations(lease, map[string]string{
		v1alpha1.AnnotationLeaderEpoch: strconv.FormatUint(epoch, 10),
		AnnotationLeaderTemplate:       template.UID + "/" + template.Name,
	})
}

// WithoutHolder is a copy of the leader-election Lease that anybody may take at
// once. Epoch and transitions stay, so that both keep counting.
func WithoutHolder(lease *coordinationv1.Lease) *coordinationv1.Lease {
	changed := lease.DeepCopy()
	nobody, second := "", int32(1)
	changed.Spec.HolderIdentity = &nobody
	changed.Spec.LeaseDurationSeconds = &second
	return changed
}

func withAnnotations(lease *coordinationv1.Lease, added map[string]string) *coordinationv1.Lease {
	changed := lease.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	maps.Copy(changed.Annotations, added)
	return changed
}

func parseTemplate(text string) fencing.TemplateRef {
	uid, name, found := strings.Cut(text, "/")
	if !found {
		return fencing.TemplateRef{}
	}
	return fencing.TemplateRef{Name: name, UID: uid}
}
