package publish

import (
	"cmp"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// owner is the controller of a stored object.
type owner struct {
	kind, name, uid string
}

func templateOwner(t checkpoint.Template) owner {
	return owner{kind: v1alpha1.KindTemplateConfig, name: t.Name, uid: t.UID}
}

func outputOwner(cfg *v1alpha1.HAProxyCfg) owner {
	return owner{kind: v1alpha1.KindCfg, name: cfg.Name, uid: string(cfg.UID)}
}

func ownedBy(o owner) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: o.kind, Name: o.name, UID: types.UID(o.uid),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
}

// controls tells whether the object's controller is exactly this owner.
func (o owner) controls(object metav1.Object) bool {
	found := metav1.GetControllerOf(object)
	return found != nil && o.is(found)
}

// is compares by group, version, kind, name and UID.
func (o owner) is(found *metav1.OwnerReference) bool {
	return found.APIVersion == v1alpha1.SchemeGroupVersion.String() &&
		found.Kind == o.kind && found.Name == o.name && string(found.UID) == o.uid
}

// ordinaryLabels select the children of a HAProxyCfg.
func ordinaryLabels(outputName string) map[string]string {
	return map[string]string{v1alpha1.LabelRuntimeConfig: checkpoint.LabelValue(outputName)}
}

// sharedLabels select checkpoints and the children they share.
func sharedLabels(t checkpoint.Template) map[string]string {
	return map[string]string{v1alpha1.LabelRetainedFor: t.UID}
}

func buildOrdinary(e *encoded, t checkpoint.Template) *v1alpha1.HAProxyCfg {
	return &v1alpha1.HAProxyCfg{
		ObjectMeta: metav1.ObjectMeta{
			Name: checkpoint.OrdinaryName(t.Name), Namespace: t.Namespace,
			Labels:          map[string]string{v1alpha1.LabelTemplateConfig: checkpoint.LabelValue(t.Name)},
			Annotations:     map[string]string{v1alpha1.AnnotationAuxiliarySetID: e.setID},
			OwnerReferences: ownedBy(templateOwner(t)),
		},
		Spec: v1alpha1.HAProxyCfgSpec{
			Path: e.output.ConfigurationPath, Content: e.text, Checksum: e.checksum, Compressed: e.packed,
		},
	}
}

func buildCheckpoint(e *encoded, t checkpoint.Template, name string) *v1alpha1.HAProxyCfg {
	cfg := buildOrdinary(e, t)
	cfg.Name = name
	cfg.Labels[v1alpha1.LabelRetainedFor] = t.UID
	cfg.Spec.RetainedPlan = e.payload
	return cfg
}

// buildChild is the object that stores a file. Labels in meta are shared and
// not changed.
func buildChild(f *file, meta metav1.ObjectMeta, claim string) metav1.Object {
	annotations := map[string]string{v1alpha1.AnnotationAuxiliaryClaim: claim}
	meta.Annotations = annotations
	empty := len(f.content) == 0
	base := path.Base(f.Path)
	switch f.Family {
	case checkpoint.Map:
		return &v1alpha1.HAProxyMapFile{ObjectMeta: meta, Spec: v1alpha1.HAProxyMapFileSpec{
			MapName: base, Path: f.Path, Entries: f.text, Empty: empty, Checksum: f.checksum, Compressed: f.packed,
		}}
	case checkpoint.CRTList:
		return &v1alpha1.HAProxyCRTListFile{ObjectMeta: meta, Spec: v1alpha1.HAProxyCRTListFileSpec{
			ListName: base, Path: f.Path, Entries: f.text, Empty: empty, Checksum: f.checksum, Compressed: f.packed,
		}}
	case checkpoint.Certificate, checkpoint.CA:
		return buildSecret(f, meta)
	default:
		return &v1alpha1.HAProxyGeneralFile{ObjectMeta: meta, Spec: v1alpha1.HAProxyGeneralFileSpec{
			FileName: f.Name, Path: f.Path, Content: f.text, Empty: empty, Checksum: f.checksum, Compressed: f.packed,
			CAFile: f.Family == checkpoint.GeneralCA,
		}}
	}
}

func buildSecret(f *file, meta metav1.ObjectMeta) *corev1.Secret {
	role, key := v1alpha1.SecretTypeCertificate, v1alpha1.SecretKeyCertificate
	if f.Family == checkpoint.CA {
		role, key = v1alpha1.SecretTypeCA, v1alpha1.SecretKeyCA
	}
	labels := map[string]string{v1alpha1.LabelType: role}
	for name, value := range meta.Labels {
		labels[name] = value
	}
	meta.Labels = labels
	meta.Annotations[v1alpha1.AnnotationAuxiliaryPath] = f.Path
	meta.Annotations[v1alpha1.AnnotationChecksum] = f.checksum
	meta.Annotations[v1alpha1.AnnotationCompressed] = strconv.FormatBool(f.packed)
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
		key: []byte(f.text), v1alpha1.SecretKeyPath: []byte(f.Path),
	}}
}

// sortedByName is the order of a reference list: by the name that identifies a
// file in its list.
func sortedByName(files []file) []*file {
	sorted := make([]*file, len(files))
	for i := range files {
		sorted[i] = &files[i]
	}
	slices.SortStableFunc(sorted, func(a, b *file) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
	})
	return sorted
}
