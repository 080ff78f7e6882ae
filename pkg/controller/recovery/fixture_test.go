package recovery

import (
	"maps"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

var web = checkpoint.Template{Namespace: "ns", Name: "web", UID: "t-uid"}

const keyLine = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"

// site is an output with a map, a certificate and a general file; the version
// makes it another one.
func site(t testing.TB, version string) *checkpoint.Output {
	t.Helper()
	configuration := "# " + version + "\nglobal\nuserlist u\n  user bob password hunter22\n"
	o := &checkpoint.Output{
		ConfigurationPath: "haproxy.cfg", Configuration: []byte(configuration), Backends: map[string]checkpoint.BackendText{},
		Artifacts: []checkpoint.Artifact{
			artifact(checkpoint.Map, "maps/hosts.map", "maps/hosts.map", "host-"+version+" backend\n"),
			artifact(checkpoint.Certificate, "site.pem", "ssl/site.pem", "-----BEGIN PRIVATE KEY-----\n"+keyLine+"\n"),
			artifact(checkpoint.General, "503.http", "files/503.http", "HTTP/1.0 503 Down\r\n\r\n"),
		},
	}
	o.SortArtifacts()
	o.Plan = &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections: []plan.Section{{
			Kind: plan.SectionCore, TextDigest: plan.Digest(o.Configuration), Length: int64(len(configuration)),
		}},
		Backends: map[string]plan.Backend{}, Profiles: map[string]plan.Profile{}, Maps: map[string]plan.Map{},
		Files: []plan.File{{Path: plan.ConfigPath, Kind: plan.FileConfig, Digest: plan.Digest(o.Configuration), Size: int64(len(configuration))}},
	}
	for _, a := range o.Artifacts {
		if a.Family == checkpoint.Map {
			o.Plan.Maps[a.Path] = plan.Map{Path: a.Path, Entries: plan.MapEntries(a.Content)}
		}
		o.Plan.Files = append(o.Plan.Files, plan.File{
			Path: a.RuntimePath, Kind: a.Family.FileKind(), Digest: plan.Digest(a.Content), Size: int64(len(a.Content)),
		})
	}
	id, err := o.Plan.ComputeID()
	if err != nil {
		t.Fatal(err)
	}
	o.Plan.ID = id
	return o
}

func artifact(family checkpoint.Family, name, path, content string) checkpoint.Artifact {
	return checkpoint.Artifact{
		Descriptor: checkpoint.Descriptor{Family: family, Name: name, Path: path, RuntimePath: path}, Content: []byte(content),
	}
}

func ownedByTemplate() []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindTemplateConfig, Name: web.Name, UID: types.UID(web.UID),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
}

// stored is one published checkpoint: the object and its children.
type stored struct {
	output     *checkpoint.Output
	checkpoint *v1alpha1.HAProxyCfg
	children   []runtime.Object
}

func (s *stored) pointer() v1alpha1.RetainedConfigReference {
	return v1alpha1.RetainedConfigReference{Name: s.checkpoint.Name, UID: s.checkpoint.UID, Checksum: s.checkpoint.Spec.Checksum}
}

// publish makes the objects that a publisher would store.
func publish(t testing.TB, o *checkpoint.Output) *stored {
	t.Helper()
	payload, err := checkpoint.EncodePayload(o)
	if err != nil {
		t.Fatal(err)
	}
	var checksums []string
	refs := &v1alpha1.AuxiliaryFileReferences{}
	s := &stored{output: o}
	for _, a := range o.Artifacts {
		sum := checkpoint.FileChecksum(a.Content)
		checksums = append(checksums, sum)
		name := checkpoint.SharedChildName(a.Descriptor, sum, web.Name, web.UID)
		meta := metav1.ObjectMeta{Namespace: web.Namespace, Name: name, UID: types.UID("uid-" + name), OwnerReferences: ownedByTemplate()}
		ref := v1alpha1.FileReference{Kind: a.Family.Kind(), Name: name, Namespace: web.Namespace}
		switch a.Family {
		case checkpoint.Map:
			refs.MapFiles = append(refs.MapFiles, ref)
			s.children = append(s.children, &v1alpha1.HAProxyMapFile{ObjectMeta: meta, Spec: v1alpha1.HAProxyMapFileSpec{
				MapName: "hosts.map", Path: a.Path, Entries: string(a.Content), Checksum: sum,
			}})
		case checkpoint.Certificate:
			refs.SSLCertificates = append(refs.SSLCertificates, ref)
			meta.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.SecretTypeCertificate}
			meta.Annotations = map[string]string{
				v1alpha1.AnnotationAuxiliaryPath: a.Path, v1alpha1.AnnotationChecksum: sum, v1alpha1.AnnotationCompressed: "false",
			}
			s.children = append(s.children, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
				v1alpha1.SecretKeyCertificate: a.Content, v1alpha1.SecretKeyPath: []byte(a.Path),
			}})
		default:
			refs.GeneralFiles = append(refs.GeneralFiles, ref)
			s.children = append(s.children, &v1alpha1.HAProxyGeneralFile{ObjectMeta: meta, Spec: v1alpha1.HAProxyGeneralFileSpec{
				FileName: a.Name, Path: a.Path, Content: string(a.Content), Checksum: sum,
			}})
		}
	}
	refs.SetID = checkpoint.SetID(o.Descriptors(), checksums)
	name := checkpoint.CheckpointName(web.Name, o.Checksum(), payload)
	s.checkpoint = &v1alpha1.HAProxyCfg{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: web.Namespace, Name: name, UID: types.UID("uid-" + name), OwnerReferences: ownedByTemplate(),
			Labels:      map[string]string{v1alpha1.LabelTemplateConfig: web.Name, v1alpha1.LabelRetainedFor: web.UID},
			Annotations: map[string]string{v1alpha1.AnnotationAuxiliarySetID: refs.SetID},
		},
		Spec: v1alpha1.HAProxyCfgSpec{
			Path: o.ConfigurationPath, Content: string(o.Configuration), Checksum: o.Checksum(), RetainedPlan: payload,
		},
		Status: v1alpha1.HAProxyCfgStatus{AuxiliaryFiles: refs, DeployedToPods: []v1alpha1.PodDeploymentStatus{{
			PodName: "gone", PodUID: "gone-uid", PodRuntimeID: "1-1", Checksum: o.Checksum(),
			AppliedPlanID: o.Plan.ID, RunningPlanID: o.Plan.ID, Mode: v1alpha1.ModeReload,
		}}},
	}
	return s
}

// ordinary is the object that names the checkpoints, newest first.
func ordinary(promoted ...*stored) *v1alpha1.HAProxyCfg {
	cfg := &v1alpha1.HAProxyCfg{ObjectMeta: metav1.ObjectMeta{
		Namespace: web.Namespace, Name: checkpoint.OrdinaryName(web.Name), UID: "ordinary-uid", OwnerReferences: ownedByTemplate(),
	}}
	for _, s := range promoted {
		cfg.Status.RetainedConfigs = append(cfg.Status.RetainedConfigs, s.pointer())
	}
	return cfg
}

// bootstrapState is a pod as it starts.
func bootstrapState() *api.State {
	return &api.State{
		APIVersion: api.Version, Phase: api.PhaseBootstrap, WorkerStatus: api.WorkerOwned, Verified: true,
		HAProxy: api.HAProxy{WorkerPID: 10, WorkerStartTimeUnixMicros: 1000},
	}
}

// configuredState is a pod that runs the output. It goes by the bytes, as an
// agent does.
func configuredState(t testing.TB, o *checkpoint.Output) *api.State {
	t.Helper()
	blob, err := o.Plan.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	proof := api.PlanProof(blob)
	s := bootstrapState()
	s.Phase, s.TemplateUID, s.AppliedPlanStored = api.PhaseConfigured, web.UID, true
	s.AppliedToken = api.Token{LeaderEpoch: 3, RenderSeq: 1}
	s.Plans = api.Plans{
		AppliedPlanID: o.Plan.ID, AppliedPlanProof: proof, RunningPlanID: o.Plan.ID, RunningPlanProof: proof,
		LKGPlanID: o.Plan.ID, LKGPlanProof: proof,
	}
	s.Files = fileStates(o)
	return s
}

func fileStates(o *checkpoint.Output) map[string]api.FileState {
	state := func(content []byte) api.FileState { return api.Declare(api.FileSpec{}, content).State() }
	files := map[string]api.FileState{api.ConfigPath: state(o.Configuration)}
	for _, a := range o.Artifacts {
		files[a.RuntimePath] = state(a.Content)
	}
	return files
}

// changed is a copy of a state with one change.
func changed(s *api.State, change func(*api.State)) *api.State {
	copied := *s
	copied.Files = maps.Clone(s.Files)
	change(&copied)
	return &copied
}

func reasons(refusals []*selection.Refusal) []selection.Reason {
	out := []selection.Reason{}
	for _, f := range refusals {
		out = append(out, f.Reason)
	}
	return out
}

func names(pods []Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

// TestMain lets the compressor make its channels outside of every bubble, or
// the first test to use it would keep them for itself.
func TestMain(m *testing.M) {
	text, _ := checkpoint.Store(make([]byte, 1<<10), 1)
	if _, err := checkpoint.Load(text, true, nil); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
