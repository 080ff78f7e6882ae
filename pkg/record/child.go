package record

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// MapFile translates a stored map.
func MapFile(o *v1alpha1.HAProxyMapFile) *checkpoint.StoredChild {
	return &checkpoint.StoredChild{
		Meta:       meta(&o.ObjectMeta),
		Kind:       v1alpha1.KindMapFile,
		Family:     checkpoint.Map,
		Path:       o.Spec.Path,
		Text:       o.Spec.Entries,
		Checksum:   o.Spec.Checksum,
		Empty:      o.Spec.Empty,
		Compressed: o.Spec.Compressed,
	}
}

// GeneralFile translates a stored general file, which may be a CA bundle.
func GeneralFile(o *v1alpha1.HAProxyGeneralFile) *checkpoint.StoredChild {
	child := &checkpoint.StoredChild{
		Meta:       meta(&o.ObjectMeta),
		Kind:       v1alpha1.KindGeneralFile,
		Family:     checkpoint.General,
		Path:       o.Spec.Path,
		FileName:   o.Spec.FileName,
		Text:       o.Spec.Content,
		Checksum:   o.Spec.Checksum,
		Empty:      o.Spec.Empty,
		Compressed: o.Spec.Compressed,
	}
	if o.Spec.CAFile {
		child.Family = checkpoint.GeneralCA
	}
	return child
}

// CRTListFile translates a stored crt-list.
func CRTListFile(o *v1alpha1.HAProxyCRTListFile) *checkpoint.StoredChild {
	return &checkpoint.StoredChild{
		Meta:       meta(&o.ObjectMeta),
		Kind:       v1alpha1.KindCRTListFile,
		Family:     checkpoint.CRTList,
		Path:       o.Spec.Path,
		Text:       o.Spec.Entries,
		Checksum:   o.Spec.Checksum,
		Empty:      o.Spec.Empty,
		Compressed: o.Spec.Compressed,
	}
}

// secretRole is what a Secret's role asks of its fields.
type secretRole struct {
	label, key string
	family     checkpoint.Family
}

var (
	certificateRole = secretRole{v1alpha1.SecretTypeCertificate, v1alpha1.SecretKeyCertificate, checkpoint.Certificate}
	caRole          = secretRole{v1alpha1.SecretTypeCA, v1alpha1.SecretKeyCA, checkpoint.CA}
)

// Secret translates a stored certificate or CA bundle. The shape is checked
// here because the fields it concerns end here: what readers of the format
// demand of type, label, keys and annotations. No finding holds a byte of the
// data.
func Secret(o *corev1.Secret) *checkpoint.StoredChild {
	role := roleOf(o)
	child := &checkpoint.StoredChild{
		Meta:       meta(&o.ObjectMeta),
		Kind:       v1alpha1.KindSecret,
		Family:     role.family,
		Path:       o.Annotations[v1alpha1.AnnotationAuxiliaryPath],
		Text:       string(o.Data[role.key]),
		Checksum:   o.Annotations[v1alpha1.AnnotationChecksum],
		Compressed: o.Annotations[v1alpha1.AnnotationCompressed] == "true",
	}
	problem := func(format string, args ...any) {
		child.Problems = append(child.Problems, checkpoint.Finding{
			State:   checkpoint.Damaged,
			Reason:  checkpoint.ReasonSecretMalformed,
			Message: v1alpha1.KindSecret + "/" + o.Name + ": " + fmt.Sprintf(format, args...),
		})
	}
	if o.Type != corev1.SecretTypeOpaque {
		problem("type: expected %q, found %s", corev1.SecretTypeOpaque, shown(string(o.Type)))
	}
	if label := o.Labels[v1alpha1.LabelType]; label != role.label {
		problem("label %s: expected %q, found %s", v1alpha1.LabelType, role.label, shown(label))
	}
	if _, ok := o.Data[role.key]; !ok {
		problem("data has no key %q", role.key)
	}
	if len(o.Data) != 2 {
		problem("data has %d keys, expected %q and %q", len(o.Data), role.key, v1alpha1.SecretKeyPath)
	}
	if path := string(o.Data[v1alpha1.SecretKeyPath]); child.Path == "" || path != child.Path {
		// The path in data is data of a Secret, so that only the annotation is shown.
		problem("data path differs from annotation %s, which is %s", v1alpha1.AnnotationAuxiliaryPath, shown(child.Path))
	}
	if c := o.Annotations[v1alpha1.AnnotationCompressed]; c != "true" && c != "false" {
		problem("annotation %s: expected \"true\" or \"false\", found %s", v1alpha1.AnnotationCompressed, shown(c))
	}
	return child
}

// roleOf goes by the content key, since that is where the bytes are; the label
// decides only where the key does not. A label that disagrees is then one
// problem and not the loss of the content.
func roleOf(o *corev1.Secret) secretRole {
	_, certificate := o.Data[certificateRole.key]
	_, ca := o.Data[caRole.key]
	switch {
	case certificate != ca && ca:
		return caRole
	case certificate != ca:
		return certificateRole
	case o.Labels[v1alpha1.LabelType] == caRole.label:
		return caRole
	default:
		return certificateRole
	}
}

// maxShown bounds a stored value in a message.
const maxShown = 256

func shown(text string) string {
	return strconv.Quote(text[:min(len(text), maxShown)])
}
