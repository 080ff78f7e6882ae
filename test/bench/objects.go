package main

import (
	"fmt"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// compressionThreshold is the default of a template.
const compressionThreshold = 1 << 20

// storedSet is everything that a publisher stores for one checkpoint.
type storedSet struct {
	checkpoint *v1alpha1.HAProxyCfg
	maps       []*v1alpha1.HAProxyMapFile
	files      []*v1alpha1.HAProxyGeneralFile
	secrets    []*corev1.Secret
}

// newStoredSet is the set of an output that a pod has acknowledged.
func newStoredSet(template *v1alpha1.HAProxyTemplateConfig, output *checkpoint.Output) (*storedSet, error) {
	payload, err := checkpoint.EncodePayload(output)
	if err != nil {
		return nil, err
	}
	s := &storedSet{}
	references := &v1alpha1.AuxiliaryFileReferences{}
	var checksums []string
	for i := range output.Artifacts {
		a := &output.Artifacts[i]
		checksum := checkpoint.FileChecksum(a.Content)
		checksums = append(checksums, checksum)
		meta := childMeta(template, a.Descriptor, checksum)
		list, err := s.add(meta, a, checksum, references)
		if err != nil {
			return nil, err
		}
		*list = append(*list, v1alpha1.FileReference{Kind: a.Family.Kind(), Name: meta.Name, Namespace: meta.Namespace})
	}
	references.SetID = checkpoint.SetID(output.Descriptors(), checksums)

	checksum := output.Checksum()
	content, compressed := checkpoint.Store(output.Configuration, compressionThreshold)
	s.checkpoint = &v1alpha1.HAProxyCfg{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: template.Namespace,
			Name:      checkpoint.CheckpointName(template.Name, checksum, payload),
			Labels: map[string]string{
				v1alpha1.LabelTemplateConfig: template.Name,
				v1alpha1.LabelRetainedFor:    string(template.UID),
			},
			Annotations:     map[string]string{v1alpha1.AnnotationAuxiliarySetID: references.SetID},
			OwnerReferences: ownedBy(template),
		},
		Spec: v1alpha1.HAProxyCfgSpec{
			Path: output.ConfigurationPath, Content: content, Compressed: compressed, Checksum: checksum, RetainedPlan: payload,
		},
		Status: v1alpha1.HAProxyCfgStatus{
			AuxiliaryFiles: references,
			DeployedToPods: []v1alpha1.PodDeploymentStatus{{
				PodName: "proxy-0", PodUID: "7b0f4f46-5d7c-4a2c-9c62-3e8a5d1f0000", PodRuntimeID: "1767225600000000-42",
				Checksum: checksum, AppliedPlanID: output.Plan.ID, RunningPlanID: output.Plan.ID, Mode: v1alpha1.ModeReload,
			}},
		},
	}
	return s, nil
}

// add makes the object of one artifact and returns the list that references it.
func (s *storedSet) add(
	meta metav1.ObjectMeta, a *checkpoint.Artifact, checksum string, references *v1alpha1.AuxiliaryFileReferences,
) (*[]v1alpha1.FileReference, error) {
	text, compressed := checkpoint.Store(a.Content, compressionThreshold)
	switch a.Family {
	case checkpoint.Map:
		s.maps = append(s.maps, &v1alpha1.HAProxyMapFile{ObjectMeta: meta, Spec: v1alpha1.HAProxyMapFileSpec{
			MapName: path.Base(a.Path), Path: a.Path, Entries: text, Compressed: compressed, Checksum: checksum,
		}})
		return &references.MapFiles, nil
	case checkpoint.General:
		s.files = append(s.files, &v1alpha1.HAProxyGeneralFile{ObjectMeta: meta, Spec: v1alpha1.HAProxyGeneralFileSpec{
			FileName: a.Name, Path: a.Path, Content: text, Compressed: compressed, Checksum: checksum,
		}})
		return &references.GeneralFiles, nil
	case checkpoint.Certificate:
		meta.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.SecretTypeCertificate}
		meta.Annotations = map[string]string{
			v1alpha1.AnnotationAuxiliaryPath: a.Path,
			v1alpha1.AnnotationChecksum:      checksum,
			v1alpha1.AnnotationCompressed:    strconv.FormatBool(compressed),
		}
		s.secrets = append(s.secrets, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
			v1alpha1.SecretKeyCertificate: []byte(text),
			v1alpha1.SecretKeyPath:        []byte(a.Path),
		}})
		return &references.SSLCertificates, nil
	default:
		return nil, fmt.Errorf("the renderer made %s of family %s, which no benchmark stores", a.Path, a.Family)
	}
}

// childMeta is that of a file that checkpoints could share.
func childMeta(template *v1alpha1.HAProxyTemplateConfig, d checkpoint.Descriptor, checksum string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       template.Namespace,
		Name:            checkpoint.SharedChildName(d, checksum, template.Name, string(template.UID)),
		OwnerReferences: ownedBy(template),
	}
}

func ownedBy(template *v1alpha1.HAProxyTemplateConfig) []metav1.OwnerReference {
	controller := true
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindTemplateConfig,
		Name: template.Name, UID: template.UID, Controller: &controller,
	}}
}
