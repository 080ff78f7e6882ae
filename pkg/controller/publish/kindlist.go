package publish

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// fileType is what differs between the kinds of files that have a status.
type fileType[T metav1.Object, L any] struct {
	name      string
	client    StatusClient[T, L]
	items     func(L) []T
	translate func(T) *checkpoint.StoredChild
	copyOf    func(T) T
	setSpec   func(changed, want T)
	status    func(T) *v1alpha1.AuxiliaryFileStatus
}

func (f fileType[T, L]) kind() childKind {
	return &kind[T, L]{
		kindName: f.name, client: f.client, items: f.items, translate: f.translate,
		overlay: func(current, want T) T {
			changed := f.copyOf(current)
			f.setSpec(changed, want)
			return changed
		},
		withStatus: &statusOf[T, L]{client: f.client, translate: f.translate, field: f.status, withCopy: f.copyOf},
	}
}

// childKinds are the kinds in the order in which they are listed and written.
func childKinds(c Clients) []childKind {
	return []childKind{
		fileType[*v1alpha1.HAProxyMapFile, *v1alpha1.HAProxyMapFileList]{
			name: v1alpha1.KindMapFile, client: c.MapFiles, translate: record.MapFile,
			items:   func(l *v1alpha1.HAProxyMapFileList) []*v1alpha1.HAProxyMapFile { return pointersTo(l.Items) },
			copyOf:  (*v1alpha1.HAProxyMapFile).DeepCopy,
			setSpec: func(changed, want *v1alpha1.HAProxyMapFile) { changed.Spec = want.Spec },
			status:  func(o *v1alpha1.HAProxyMapFile) *v1alpha1.AuxiliaryFileStatus { return &o.Status },
		}.kind(),
		fileType[*v1alpha1.HAProxyGeneralFile, *v1alpha1.HAProxyGeneralFileList]{
			name: v1alpha1.KindGeneralFile, client: c.GeneralFiles, translate: record.GeneralFile,
			items:   func(l *v1alpha1.HAProxyGeneralFileList) []*v1alpha1.HAProxyGeneralFile { return pointersTo(l.Items) },
			copyOf:  (*v1alpha1.HAProxyGeneralFile).DeepCopy,
			setSpec: func(changed, want *v1alpha1.HAProxyGeneralFile) { changed.Spec = want.Spec },
			status:  func(o *v1alpha1.HAProxyGeneralFile) *v1alpha1.AuxiliaryFileStatus { return &o.Status },
		}.kind(),
		fileType[*v1alpha1.HAProxyCRTListFile, *v1alpha1.HAProxyCRTListFileList]{
			name: v1alpha1.KindCRTListFile, client: c.CRTListFiles, translate: record.CRTListFile,
			items:   func(l *v1alpha1.HAProxyCRTListFileList) []*v1alpha1.HAProxyCRTListFile { return pointersTo(l.Items) },
			copyOf:  (*v1alpha1.HAProxyCRTListFile).DeepCopy,
			setSpec: func(changed, want *v1alpha1.HAProxyCRTListFile) { changed.Spec = want.Spec },
			status:  func(o *v1alpha1.HAProxyCRTListFile) *v1alpha1.AuxiliaryFileStatus { return &o.Status },
		}.kind(),
		&kind[*corev1.Secret, *corev1.SecretList]{
			kindName: v1alpha1.KindSecret, client: c.Secrets, translate: record.Secret,
			items: func(l *corev1.SecretList) []*corev1.Secret { return pointersTo(l.Items) },
			overlay: func(current, want *corev1.Secret) *corev1.Secret {
				changed := current.DeepCopy()
				changed.Type, changed.Data = want.Type, want.Data
				return changed
			},
		},
	}
}
