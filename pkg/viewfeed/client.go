package viewfeed

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// KindLease is the kind of the Leases, beside those that package v1alpha1 names.
const KindLease = "Lease"

// Client reads stored objects of the kinds that views are computed from. An
// empty namespace means all of them.
type Client interface {
	List(ctx context.Context, kind, namespace string, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, kind, namespace string, opts metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, kind, namespace, name string) (runtime.Object, error)
}

// ClusterClient reads from a cluster. Templates are read without a schema: those
// of another controller may have fields of other types, and views need little
// of them.
func ClusterClient(stored versioned.Interface, core kubernetes.Interface, schemaless dynamic.Interface) Client {
	haptic := stored.HapticV1alpha1()
	return clusterClient{
		v1alpha1.KindTemplateConfig: templateReader(schemaless.Resource(v1alpha1.SchemeGroupVersion.WithResource("haproxytemplateconfigs"))),
		v1alpha1.KindCfg: reader(func(ns string) typed[*v1alpha1.HAProxyCfgList, *v1alpha1.HAProxyCfg] {
			return haptic.HAProxyCfgs(ns)
		}),
		v1alpha1.KindMapFile: reader(func(ns string) typed[*v1alpha1.HAProxyMapFileList, *v1alpha1.HAProxyMapFile] {
			return haptic.HAProxyMapFiles(ns)
		}),
		v1alpha1.KindGeneralFile: reader(func(ns string) typed[*v1alpha1.HAProxyGeneralFileList, *v1alpha1.HAProxyGeneralFile] {
			return haptic.HAProxyGeneralFiles(ns)
		}),
		v1alpha1.KindCRTListFile: reader(func(ns string) typed[*v1alpha1.HAProxyCRTListFileList, *v1alpha1.HAProxyCRTListFile] {
			return haptic.HAProxyCRTListFiles(ns)
		}),
		v1alpha1.KindSecret: reader(func(ns string) typed[*corev1.SecretList, *corev1.Secret] {
			return core.CoreV1().Secrets(ns)
		}),
		KindLease: reader(func(ns string) typed[*coordinationv1.LeaseList, *coordinationv1.Lease] {
			return core.CoordinationV1().Leases(ns)
		}),
	}
}

type clusterClient map[string]kindReader

type kindReader struct {
	list  func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error)
	get   func(ctx context.Context, namespace, name string) (runtime.Object, error)
}

// typed is what the generated clients have in common.
type typed[L, O runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
}

func reader[L, O runtime.Object](in func(namespace string) typed[L, O]) kindReader {
	return kindReader{
		list: func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
			return in(namespace).List(ctx, opts)
		},
		watch: func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
			return in(namespace).Watch(ctx, opts)
		},
		get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return in(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
}

func templateReader(templates dynamic.NamespaceableResourceInterface) kindReader {
	return kindReader{
		list: func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
			return templates.Namespace(namespace).List(ctx, opts)
		},
		watch: func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
			return templates.Namespace(namespace).Watch(ctx, opts)
		},
		get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return templates.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
}

// List lists objects of a kind.
func (c clusterClient) List(ctx context.Context, kind, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
	return c[kind].list(ctx, namespace, opts)
}

// Watch watches objects of a kind.
func (c clusterClient) Watch(ctx context.Context, kind, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	return c[kind].watch(ctx, namespace, opts)
}

// Get reads one object.
func (c clusterClient) Get(ctx context.Context, kind, namespace, name string) (runtime.Object, error) {
	return c[kind].get(ctx, namespace, name)
}
