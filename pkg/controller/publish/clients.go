package publish

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// ObjectClient is what is needed of a stored kind in one namespace. Generated
// clients have it.
type ObjectClient[T, L any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// StatusClient is an ObjectClient of a kind with a status.
type StatusClient[T, L any] interface {
	ObjectClient[T, L]
	UpdateStatus(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// Clients are the stored kinds of the template's namespace.
type Clients struct {
	Outputs      StatusClient[*v1alpha1.HAProxyCfg, *v1alpha1.HAProxyCfgList]
	MapFiles     StatusClient[*v1alpha1.HAProxyMapFile, *v1alpha1.HAProxyMapFileList]
	GeneralFiles StatusClient[*v1alpha1.HAProxyGeneralFile, *v1alpha1.HAProxyGeneralFileList]
	CRTListFiles StatusClient[*v1alpha1.HAProxyCRTListFile, *v1alpha1.HAProxyCRTListFileList]
	Secrets      ObjectClient[*corev1.Secret, *corev1.SecretList]
}

// NewClients takes them from two clientsets.
func NewClients(haptic versioned.Interface, core kubernetes.Interface, namespace string) Clients {
	stored := haptic.HapticV1alpha1()
	return Clients{
		Outputs:      stored.HAProxyCfgs(namespace),
		MapFiles:     stored.HAProxyMapFiles(namespace),
		GeneralFiles: stored.HAProxyGeneralFiles(namespace),
		CRTListFiles: stored.HAProxyCRTListFiles(namespace),
		Secrets:      core.CoreV1().Secrets(namespace),
	}
}
