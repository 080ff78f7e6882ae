package aggregation

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const (
	template = "web"
	hostsMap = "maps/hosts.map"
)

// store puts a checkpoint with one map into the cluster, as a publisher does, and
// returns its name and the map's.
func store(t *testing.T, marker string) (name, file string) {
	t.Helper()
	haptic, uid := stored(t), templateUID(t)
	output := newOutput(t, marker)
	payload, err := checkpoint.EncodePayload(output)
	if err != nil {
		t.Fatal(err)
	}
	content := output.Artifacts[0].Content
	sum := checkpoint.FileChecksum(content)
	file = checkpoint.SharedChildName(output.Artifacts[0].Descriptor, sum, template, string(uid))
	_, err = haptic.HAProxyMapFiles(edge).Create(t.Context(), &v1alpha1.HAProxyMapFile{
		ObjectMeta: owned(file, uid),
		Spec:       v1alpha1.HAProxyMapFileSpec{MapName: "hosts.map", Path: hostsMap, Entries: string(content), Checksum: sum},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set := checkpoint.SetID(output.Descriptors(), []string{sum})
	meta := owned(checkpoint.CheckpointName(template, output.Checksum(), payload), uid)
	meta.Labels = map[string]string{v1alpha1.LabelTemplateConfig: template, v1alpha1.LabelRetainedFor: string(uid)}
	meta.Annotations = map[string]string{v1alpha1.AnnotationAuxiliarySetID: set}
	created, err := haptic.HAProxyCfgs(edge).Create(t.Context(), &v1alpha1.HAProxyCfg{
		ObjectMeta: meta,
		Spec:       v1alpha1.HAProxyCfgSpec{Path: output.ConfigurationPath, Content: string(output.Configuration), Checksum: output.Checksum(), RetainedPlan: payload},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Status.AuxiliaryFiles = &v1alpha1.AuxiliaryFileReferences{
		SetID: set, MapFiles: []v1alpha1.FileReference{{Kind: v1alpha1.KindMapFile, Name: file, Namespace: edge}},
	}
	created.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{
		PodName: "proxy-1", PodUID: "p1", PodRuntimeID: "r1", Checksum: output.Checksum(),
		AppliedPlanID: output.Plan.ID, RunningPlanID: output.Plan.ID, Mode: v1alpha1.ModeReload,
	}}
	if _, err := haptic.HAProxyCfgs(edge).UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := haptic.HAProxyCfgs(edge).Delete(ctx, created.Name, metav1.DeleteOptions{})
		if err := errors.Join(err, haptic.HAProxyMapFiles(edge).Delete(ctx, file, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	return created.Name, file
}

func newOutput(t *testing.T, marker string) *checkpoint.Output {
	t.Helper()
	configuration, hosts := []byte("global\n  maxconn 100\n# "+marker+"\n"), []byte(marker+".example web\n")
	p := &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections:      []plan.Section{{Kind: plan.SectionCore, TextDigest: plan.Digest(configuration), Length: int64(len(configuration))}},
		Backends:      map[string]plan.Backend{},
		Maps:          map[string]plan.Map{hostsMap: {Path: hostsMap, Entries: plan.MapEntries(hosts)}},
		Files: []plan.File{
			{Path: plan.ConfigPath, Kind: plan.FileConfig, Digest: plan.Digest(configuration), Size: int64(len(configuration))},
			{Path: hostsMap, Kind: checkpoint.Map.FileKind(), Digest: plan.Digest(hosts), Size: int64(len(hosts))},
		},
	}
	id, err := p.ComputeID()
	if err != nil {
		t.Fatal(err)
	}
	p.ID = id
	return &checkpoint.Output{
		ConfigurationPath: "haproxy.cfg", Configuration: configuration, Plan: p,
		Artifacts: []checkpoint.Artifact{{
			Descriptor: checkpoint.Descriptor{Family: checkpoint.Map, Name: hostsMap, Path: hostsMap, RuntimePath: hostsMap}, Content: hosts,
		}},
	}
}

// templateUID is that of the template that owns everything; it is made once.
func templateUID(t *testing.T) types.UID {
	t.Helper()
	templates := stored(t).HAProxyTemplateConfigs(edge)
	if found, err := templates.Get(t.Context(), template, metav1.GetOptions{}); err == nil {
		return found.UID
	}
	created, err := templates.Create(t.Context(), &v1alpha1.HAProxyTemplateConfig{
		ObjectMeta: metav1.ObjectMeta{Name: template},
		Spec: v1alpha1.HAProxyTemplateConfigSpec{
			PodSelector:   v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "proxy"}},
			HAProxyConfig: v1alpha1.Template{Template: "global\n"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.UID
}

func owned(name string, uid types.UID) metav1.ObjectMeta {
	controller := true
	return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindTemplateConfig, Name: template, UID: uid, Controller: &controller,
	}}}
}
