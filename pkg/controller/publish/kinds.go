package publish

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// child is one stored file as it was read, whatever its kind.
type child struct {
	metav1.Object
	stored *checkpoint.StoredChild
	// entries are the per-pod entries, for a kind that has them.
	entries []v1alpha1.PodDeploymentStatus
}

func (c *child) claim() string { return c.GetAnnotations()[v1alpha1.AnnotationAuxiliaryClaim] }

// childKind lets the four kinds of stored files be treated alike.
type childKind interface {
	name() string
	list(ctx context.Context, selector string) ([]*child, error)
	get(ctx context.Context, name string) (*child, error)
	create(ctx context.Context, object metav1.Object) (*child, error)
	// update gives current the labels, annotations, owner and content of want.
	update(ctx context.Context, current *child, want metav1.Object) (*child, error)
	delete(ctx context.Context, c *child) error
	// status is nil for a kind without one.
	status() statusKind
}

// statusKind is a kind whose objects carry per-pod entries.
type statusKind interface {
	entries(c *child) []v1alpha1.PodDeploymentStatus
	setEntries(ctx context.Context, c *child, entries []v1alpha1.PodDeploymentStatus) (*child, error)
	object(ctx context.Context, name string) (metav1.Object, error)
	apply(ctx context.Context, name string, patch []byte, manager string) (metav1.Object, error)
}

// kind is a childKind by what differs between the types.
type kind[T metav1.Object, L any] struct {
	kindName  string
	client    ObjectClient[T, L]
	items     func(L) []T
	translate func(T) *checkpoint.StoredChild
	// overlay copies current and gives the copy want's content.
	overlay    func(current, want T) T
	withStatus statusKind
}

func (k *kind[T, L]) name() string       { return k.kindName }
func (k *kind[T, L]) status() statusKind { return k.withStatus }

func (k *kind[T, L]) wrap(object T, err error) (*child, error) {
	if err != nil {
		return nil, err
	}
	return k.childOf(object), nil
}

func (k *kind[T, L]) childOf(object T) *child {
	c := &child{Object: object, stored: k.translate(object)}
	if k.withStatus != nil {
		c.entries = k.withStatus.entries(c)
	}
	return c
}

func (k *kind[T, L]) list(ctx context.Context, selector string) ([]*child, error) {
	list, err := k.client.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	items := k.items(list)
	found := make([]*child, 0, len(items))
	for _, item := range items {
		found = append(found, k.childOf(item))
	}
	return found, nil
}

func (k *kind[T, L]) get(ctx context.Context, name string) (*child, error) {
	return k.wrap(k.client.Get(ctx, name, metav1.GetOptions{}))
}

func (k *kind[T, L]) create(ctx context.Context, object metav1.Object) (*child, error) {
	return k.wrap(k.client.Create(ctx, object.(T), metav1.CreateOptions{}))
}

func (k *kind[T, L]) update(ctx context.Context, current *child, want metav1.Object) (*child, error) {
	changed := k.overlay(current.Object.(T), want.(T))
	changed.SetLabels(merged(changed.GetLabels(), want.GetLabels()))
	changed.SetAnnotations(merged(changed.GetAnnotations(), want.GetAnnotations()))
	changed.SetOwnerReferences(want.GetOwnerReferences())
	return k.wrap(k.client.Update(ctx, changed, metav1.UpdateOptions{}))
}

func (k *kind[T, L]) delete(ctx context.Context, c *child) error {
	return k.client.Delete(ctx, c.GetName(), deleteExactly(c))
}

// merged leaves what others put there.
func merged(current, want map[string]string) map[string]string {
	result := maps.Clone(current)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, want)
	return result
}

// statusOf is the status of one type.
type statusOf[T metav1.Object, L any] struct {
	client    StatusClient[T, L]
	translate func(T) *checkpoint.StoredChild
	// field gives the status of an object, and withCopy a copy of the object.
	field    func(T) *v1alpha1.AuxiliaryFileStatus
	withCopy func(T) T
}

func (s *statusOf[T, L]) entries(c *child) []v1alpha1.PodDeploymentStatus {
	return s.field(c.Object.(T)).DeployedToPods
}

func (s *statusOf[T, L]) setEntries(ctx context.Context, c *child, entries []v1alpha1.PodDeploymentStatus) (*child, error) {
	changed := s.withCopy(c.Object.(T))
	s.field(changed).DeployedToPods = entries
	stored, err := s.client.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return &child{Object: stored, stored: s.translate(stored)}, nil
}

func (s *statusOf[T, L]) object(ctx context.Context, name string) (metav1.Object, error) {
	return s.client.Get(ctx, name, metav1.GetOptions{})
}

func (s *statusOf[T, L]) apply(ctx context.Context, name string, patch []byte, manager string) (metav1.Object, error) {
	return s.client.Patch(ctx, name, types.ApplyPatchType, patch, applyOptions(manager), "status")
}

func applyOptions(manager string) metav1.PatchOptions {
	force := true
	return metav1.PatchOptions{FieldManager: manager, Force: &force}
}

// pointersTo gives the items of a list as its kind is used elsewhere.
func pointersTo[T any](items []T) []*T {
	pointers := make([]*T, len(items))
	for i := range items {
		pointers[i] = &items[i]
	}
	return pointers
}
