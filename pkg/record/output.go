package record

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// checkpointInfix is in the name of every checkpoint, whatever its template.
const checkpointInfix = "-haproxycfg-retained-"

// IsCheckpoint tells checkpoints from the other roles of their kind. Label and
// name count too: a checkpoint that lost its payload is a damaged checkpoint,
// not an ordinary output.
func IsCheckpoint(cfg *v1alpha1.HAProxyCfg) bool {
	return cfg.Spec.RetainedPlan != "" || cfg.Labels[v1alpha1.LabelRetainedFor] != "" ||
		strings.Contains(cfg.Name, checkpointInfix)
}

// TemplateOf is what a checkpoint says of its template: by its controller owner
// if that is a template, else by its labels.
func TemplateOf(cfg *v1alpha1.HAProxyCfg) (name, uid string) {
	owner := Controller(&cfg.ObjectMeta)
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	if owner.Kind == v1alpha1.KindTemplateConfig && group == v1alpha1.GroupName {
		return owner.Name, owner.UID
	}
	return cfg.Labels[v1alpha1.LabelTemplateConfig], cfg.Labels[v1alpha1.LabelRetainedFor]
}

// TemplateIn is the start of a checkpoint's name, which is the template's name
// unless that was too long.
func TemplateIn(checkpointName string) string {
	name, _, _ := strings.Cut(checkpointName, checkpointInfix)
	return name
}

// Checkpoint translates a checkpoint.
func Checkpoint(cfg *v1alpha1.HAProxyCfg) *checkpoint.StoredCheckpoint {
	return &checkpoint.StoredCheckpoint{
		Meta:            meta(&cfg.ObjectMeta),
		TemplateLabel:   cfg.Labels[v1alpha1.LabelTemplateConfig],
		RetainedFor:     cfg.Labels[v1alpha1.LabelRetainedFor],
		Path:            cfg.Spec.Path,
		Content:         cfg.Spec.Content,
		Checksum:        cfg.Spec.Checksum,
		Compressed:      cfg.Spec.Compressed,
		RetainedPlan:    cfg.Spec.RetainedPlan,
		SetIDAnnotation: cfg.Annotations[v1alpha1.AnnotationAuxiliarySetID],
		References:      references(cfg.Status.AuxiliaryFiles),
		Receipts:        podEntries(cfg.Status.DeployedToPods),
	}
}

// Ordinary translates what a template's ordinary output tells about its
// checkpoints: the committed pointers, newest first, and what pods report.
func Ordinary(cfg *v1alpha1.HAProxyCfg) ([]checkpoint.Pointer, []checkpoint.PodEntry) {
	pointers := make([]checkpoint.Pointer, 0, len(cfg.Status.RetainedConfigs))
	for _, p := range cfg.Status.RetainedConfigs {
		pointers = append(pointers, checkpoint.Pointer{Name: p.Name, UID: string(p.UID), Checksum: p.Checksum})
	}
	return pointers, podEntries(cfg.Status.DeployedToPods)
}

func meta(m *metav1.ObjectMeta) checkpoint.Meta {
	translated := checkpoint.Meta{
		Namespace:       m.Namespace,
		Name:            m.Name,
		UID:             string(m.UID),
		ResourceVersion: m.ResourceVersion,
		Generation:      m.Generation,
		Created:         m.CreationTimestamp.Time,
		Terminating:     m.DeletionTimestamp != nil,
	}
	for _, o := range m.OwnerReferences {
		translated.Owners = append(translated.Owners, checkpoint.Owner{
			APIVersion: o.APIVersion,
			Kind:       o.Kind,
			Name:       o.Name,
			UID:        string(o.UID),
			Controller: o.Controller != nil && *o.Controller,
		})
	}
	return translated
}

// references joins the five lists in the order in which readers take them. The
// list of general files holds CA bundles too and is marked General.
func references(files *v1alpha1.AuxiliaryFileReferences) *checkpoint.References {
	if files == nil {
		return nil
	}
	translated := &checkpoint.References{SetID: files.SetID, Unsupported: files.Unsupported}
	for _, list := range []struct {
		family checkpoint.Family
		refs   []v1alpha1.FileReference
	}{
		{checkpoint.Map, files.MapFiles},
		{checkpoint.General, files.GeneralFiles},
		{checkpoint.CRTList, files.CRTListFiles},
		{checkpoint.Certificate, files.SSLCertificates},
		{checkpoint.CA, files.SSLCaFiles},
	} {
		for _, ref := range list.refs {
			translated.Lists = append(translated.Lists, checkpoint.Reference{
				List: list.family, Kind: ref.Kind, Name: ref.Name, Namespace: ref.Namespace,
			})
		}
	}
	return translated
}

// PodStatus is the stored form of a pod's entry.
func PodStatus(e checkpoint.PodEntry) v1alpha1.PodDeploymentStatus {
	return v1alpha1.PodDeploymentStatus{
		PodName:         e.PodName,
		PodUID:          e.PodUID,
		PodRuntimeID:    e.PodRuntimeID,
		Checksum:        e.Checksum,
		AppliedPlanID:   e.AppliedPlanID,
		RunningPlanID:   e.RunningPlanID,
		WorkerOpsPlanID: e.WorkerOpsPlanID,
		Mode:            e.Mode,
		LastError:       e.LastError,
	}
}

func podEntries(stored []v1alpha1.PodDeploymentStatus) []checkpoint.PodEntry {
	entries := make([]checkpoint.PodEntry, 0, len(stored))
	for i := range stored {
		e := &stored[i]
		entries = append(entries, checkpoint.PodEntry{
			PodName:         e.PodName,
			PodUID:          e.PodUID,
			PodRuntimeID:    e.PodRuntimeID,
			Checksum:        e.Checksum,
			AppliedPlanID:   e.AppliedPlanID,
			RunningPlanID:   e.RunningPlanID,
			WorkerOpsPlanID: e.WorkerOpsPlanID,
			Mode:            e.Mode,
			LastError:       e.LastError,
		})
	}
	return entries
}
