package viewfeed

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const (
	namespace    = "edge"
	templateName = "web"
	templateUID  = "7c1b0b0e-0000-4000-8000-000000000001"
	keyBytes     = "-----BEGIN PRIVATE KEY-----\nZm9ydHkgY2hhcmFjdGVycyBvZiBhIHByaXZhdGUga2V5ISE=\n-----END PRIVATE KEY-----\n"
)

// fixture is a template with one promoted, acknowledged, intended checkpoint.
type fixture struct {
	template    *unstructured.Unstructured
	ordinary    *v1alpha1.HAProxyCfg
	checkpoint  *v1alpha1.HAProxyCfg
	hosts       *v1alpha1.HAProxyMapFile
	page        *v1alpha1.HAProxyGeneralFile
	certificate *corev1.Secret
	election    *coordinationv1.Lease
	retained    *coordinationv1.Lease
	planID      string
	checksum    string
}

func newFixture(t *testing.T, marker string) *fixture {
	t.Helper()
	configuration := []byte("global\n  maxconn 100\n# " + marker + "\n")
	artifacts := fixtureArtifacts()
	output := &checkpoint.Output{ConfigurationPath: "haproxy.cfg", Configuration: configuration, Artifacts: artifacts, Plan: planOf(t, configuration, artifacts)}
	payload, err := checkpoint.EncodePayload(output)
	if err != nil {
		t.Fatal(err)
	}
	return newStored(output, payload)
}

func fixtureArtifacts() []checkpoint.Artifact {
	return []checkpoint.Artifact{
		{Descriptor: checkpoint.Descriptor{Family: checkpoint.Map, Name: "maps/hosts.map", Path: "maps/hosts.map", RuntimePath: "maps/hosts.map"}, Content: []byte("a.example web\n")},
		{Descriptor: checkpoint.Descriptor{Family: checkpoint.General, Name: "503.http", Path: "files/503.http", RuntimePath: "files/503.http", ReloadOnChange: true}, Content: []byte("HTTP/1.0 503\r\n\r\n")},
		{Descriptor: checkpoint.Descriptor{Family: checkpoint.Certificate, Name: "web.pem", Path: "ssl/web.pem", RuntimePath: "ssl/web.pem"}, Content: []byte(keyBytes)},
	}
}

func planOf(t *testing.T, configuration []byte, artifacts []checkpoint.Artifact) *plan.Plan {
	t.Helper()
	p := &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections:      []plan.Section{{Kind: plan.SectionCore, TextDigest: plan.Digest(configuration), Length: int64(len(configuration))}},
		Backends:      map[string]plan.Backend{},
		Maps:          map[string]plan.Map{},
		Files:         []plan.File{{Path: plan.ConfigPath, Kind: plan.FileConfig, Digest: plan.Digest(configuration), Size: int64(len(configuration))}},
	}
	for _, a := range artifacts {
		p.Files = append(p.Files, plan.File{Path: a.RuntimePath, Kind: a.Family.FileKind(), ReloadOnChange: a.ReloadOnChange, Digest: plan.Digest(a.Content), Size: int64(len(a.Content))})
		if a.Family == checkpoint.Map {
			p.Maps[a.RuntimePath] = plan.Map{Path: a.RuntimePath, Entries: plan.MapEntries(a.Content)}
		}
	}
	id, err := p.ComputeID()
	if err != nil {
		t.Fatal(err)
	}
	p.ID = id
	return p
}

func newStored(output *checkpoint.Output, payload string) *fixture {
	// The decoder is shared by the process and must not be made in a bubble.
	_, _ = checkpoint.Load(payload, true, nil)
	f := &fixture{planID: output.Plan.ID, checksum: output.Checksum()}
	f.template = anyTemplate()
	f.template.SetNamespace(namespace)
	f.template.SetName(templateName)
	f.template.SetUID(templateUID)

	var names, checksums []string
	var descriptors []checkpoint.Descriptor
	for _, a := range output.Artifacts {
		checksum := checkpoint.FileChecksum(a.Content)
		names = append(names, checkpoint.SharedChildName(a.Descriptor, checksum, templateName, templateUID))
		checksums = append(checksums, checksum)
		descriptors = append(descriptors, a.Descriptor)
	}
	f.hosts = &v1alpha1.HAProxyMapFile{ObjectMeta: owned(names[0]), Spec: v1alpha1.HAProxyMapFileSpec{
		MapName: "hosts.map", Path: "maps/hosts.map", Entries: string(output.Artifacts[0].Content), Checksum: checksums[0],
	}}
	f.page = &v1alpha1.HAProxyGeneralFile{ObjectMeta: owned(names[1]), Spec: v1alpha1.HAProxyGeneralFileSpec{
		FileName: "503.http", Path: "files/503.http", Content: string(output.Artifacts[1].Content), Checksum: checksums[1],
	}}
	f.certificate = &corev1.Secret{ObjectMeta: owned(names[2]), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
		v1alpha1.SecretKeyCertificate: output.Artifacts[2].Content, v1alpha1.SecretKeyPath: []byte("ssl/web.pem"),
	}}
	f.certificate.Labels = map[string]string{v1alpha1.LabelType: v1alpha1.SecretTypeCertificate}
	f.certificate.Annotations = map[string]string{
		v1alpha1.AnnotationChecksum: checksums[2], v1alpha1.AnnotationCompressed: "false", v1alpha1.AnnotationAuxiliaryPath: "ssl/web.pem",
	}

	setID := checkpoint.SetID(descriptors, checksums)
	f.checkpoint = &v1alpha1.HAProxyCfg{
		ObjectMeta: owned(checkpoint.CheckpointName(templateName, f.checksum, payload)),
		Spec:       v1alpha1.HAProxyCfgSpec{Path: output.ConfigurationPath, Content: string(output.Configuration), Checksum: f.checksum, RetainedPlan: payload},
		Status: v1alpha1.HAProxyCfgStatus{
			AuxiliaryFiles: &v1alpha1.AuxiliaryFileReferences{
				SetID:           setID,
				MapFiles:        []v1alpha1.FileReference{{Kind: v1alpha1.KindMapFile, Name: names[0], Namespace: namespace}},
				GeneralFiles:    []v1alpha1.FileReference{{Kind: v1alpha1.KindGeneralFile, Name: names[1], Namespace: namespace}},
				SSLCertificates: []v1alpha1.FileReference{{Kind: v1alpha1.KindSecret, Name: names[2], Namespace: namespace}},
			},
			DeployedToPods: []v1alpha1.PodDeploymentStatus{{
				PodName: "proxy-1", PodUID: "p1", PodRuntimeID: "r1", Checksum: f.checksum,
				AppliedPlanID: f.planID, RunningPlanID: f.planID, Mode: v1alpha1.ModeReload,
			}},
		},
	}
	f.checkpoint.Labels = map[string]string{v1alpha1.LabelTemplateConfig: templateName, v1alpha1.LabelRetainedFor: templateUID}
	f.checkpoint.Annotations = map[string]string{v1alpha1.AnnotationAuxiliarySetID: setID}
	f.ordinary = &v1alpha1.HAProxyCfg{ObjectMeta: owned(checkpoint.OrdinaryName(templateName)), Status: v1alpha1.HAProxyCfgStatus{
		RetainedConfigs: []v1alpha1.RetainedConfigReference{{Name: f.checkpoint.Name, UID: f.checkpoint.UID, Checksum: f.checksum}},
	}}
	f.newLeases()
	return f
}

func (f *fixture) newLeases() {
	holder, transitions := "controller-1", int32(3)
	f.election = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: templateName + "-leader", UID: "l", Annotations: map[string]string{
			v1alpha1.AnnotationLeaderEpoch: "7", "haproxy-haptic.org/leader-template": templateUID + "/" + templateName,
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions, AcquireTime: &metav1.MicroTime{Time: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}},
	}
	f.retained = &coordinationv1.Lease{ObjectMeta: owned(checkpoint.RetainedStateLeaseName(templateName))}
	f.retained.Annotations = map[string]string{v1alpha1.AnnotationDeploymentIntent: fencing.Intent{
		UID: templateUID, Epoch: 7, Claim: "SECRETCLAIM", PlanID: f.planID, Checksum: f.checksum, Holder: holder,
	}.Encode()}
}

func owned(name string) metav1.ObjectMeta {
	controller := true
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name[:min(len(name), 20)] + name[max(0, len(name)-8):]),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindTemplateConfig,
			Name: templateName, UID: templateUID, Controller: &controller,
		}},
	}
}

func (f *fixture) all() []stored {
	return []stored{f.template, f.ordinary, f.checkpoint, f.hosts, f.page, f.certificate, f.election, f.retained}
}

// tampered is the map with one entry changed and everything else as it was.
func (f *fixture) tampered() *v1alpha1.HAProxyMapFile {
	hosts := f.hosts.DeepCopy()
	hosts.Spec.Entries = strings.Replace(hosts.Spec.Entries, "web", "bad", 1)
	return hosts
}
