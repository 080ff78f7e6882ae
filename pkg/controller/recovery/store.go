package recovery

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// ClientStore reads from the API server. No request carries a resourceVersion,
// so that every answer is the newest.
type ClientStore struct {
	haptic   versioned.Interface
	core     kubernetes.Interface
	template checkpoint.Template
}

// NewClientStore makes the Store of one template.
func NewClientStore(haptic versioned.Interface, core kubernetes.Interface, template checkpoint.Template) *ClientStore {
	return &ClientStore{haptic: haptic, core: core, template: template}
}

// Ordinary reads the template's ordinary output.
func (s *ClientStore) Ordinary(ctx context.Context) (*v1alpha1.HAProxyCfg, error) {
	return s.Checkpoint(ctx, checkpoint.OrdinaryName(s.template.Name))
}

// Checkpoint reads one HAProxyCfg.
func (s *ClientStore) Checkpoint(ctx context.Context, name string) (*v1alpha1.HAProxyCfg, error) {
	cfg, err := s.haptic.HapticV1alpha1().HAProxyCfgs(s.template.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", v1alpha1.KindCfg, name, err)
	}
	return cfg, nil
}

// Children lists the four kinds. Our own kinds hold nothing else, and no label
// is the same in all releases; Secrets of every release carry their role.
func (s *ClientStore) Children(ctx context.Context) ([]*checkpoint.StoredChild, error) {
	stored, namespace := s.haptic.HapticV1alpha1(), s.template.Namespace
	maps, err := stored.HAProxyMapFiles(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", v1alpha1.KindMapFile, err)
	}
	files, err := stored.HAProxyGeneralFiles(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", v1alpha1.KindGeneralFile, err)
	}
	lists, err := stored.HAProxyCRTListFiles(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", v1alpha1.KindCRTListFile, err)
	}
	secrets, err := s.core.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelType})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", v1alpha1.KindSecret, err)
	}
	var children []*checkpoint.StoredChild
	children = translated(children, maps.Items, record.MapFile)
	children = translated(children, files.Items, record.GeneralFile)
	children = translated(children, lists.Items, record.CRTListFile)
	return translated[corev1.Secret](children, secrets.Items, record.Secret), nil
}

func translated[T any](children []*checkpoint.StoredChild, items []T, translate func(*T) *checkpoint.StoredChild) []*checkpoint.StoredChild {
	for i := range items {
		children = append(children, translate(&items[i]))
	}
	return children
}
