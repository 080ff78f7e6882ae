package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/plan"
	"github.com/holdfast-project/holdfast/pkg/record"
)

const (
	namespace    = "edge"
	templateName = "web"
	templateUID  = "10000000-0000-4000-8000-000000000001"
	// keyBytes and configBytes must never be printed.
	keyBytes    = "bm90LWEta2V5LWJ1dC1rZXB0LWxpa2Utb25l"
	configBytes = "log-tag never-shown"
)

// export is everything that is stored for one template with two checkpoints
// that share most of their files.
type export struct {
	template            *v1alpha1.HAProxyTemplateConfig
	ordinary            *v1alpha1.HAProxyCfg
	newest, predecessor *v1alpha1.HAProxyCfg
	maps                []*v1alpha1.HAProxyMapFile
	general             []*v1alpha1.HAProxyGeneralFile
	crtLists            []*v1alpha1.HAProxyCRTListFile
	secrets             []*corev1.Secret
	leader, retained    *coordinationv1.Lease
	// others are objects that no verdict depends on.
	others []runtime.Object
}

func output(t testing.TB, hosts string) *checkpoint.Output {
	t.Helper()
	sections := []string{
		"global\n    " + configBytes + "\n\n",
		"backend app\n    balance roundrobin\n    # " + strings.TrimSpace(hosts) + "\n    server s1 192.0.2.10:8080\n",
	}
	body, comments := []string{"balance roundrobin"}, []string{"# " + strings.TrimSpace(hosts)}
	p := &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Backends: map[string]plan.Backend{"app": {
			Name: "app", Balance: "roundrobin", Shape: plan.ShapeDynamic,
			Servers:    []plan.Server{{Name: "s1", Address: "192.0.2.10", Port: 8080}},
			BodyDigest: plan.LinesDigest(body), CommentsDigest: plan.LinesDigest(comments),
			RecordDigest: plan.DigestString("record"), TextDigest: plan.DigestString(sections[1]),
		}},
		Profiles: map[string]plan.Profile{},
		Maps:     map[string]plan.Map{},
	}
	for i, text := range sections {
		p.Sections = append(p.Sections, plan.Section{
			Kind: []string{plan.SectionCore, plan.SectionBackend}[i], Name: []string{"global", "app"}[i],
			TextDigest: plan.DigestString(text), Length: int64(len(text)),
		})
	}
	o := &checkpoint.Output{
		ConfigurationPath: "/etc/haproxy/haproxy.cfg",
		Configuration:     []byte(strings.Join(sections, "")),
		Plan:              p,
		Backends:          map[string]checkpoint.BackendText{"app": {Body: body, Comments: comments}},
		Artifacts: []checkpoint.Artifact{
			artifact(checkpoint.Map, "maps/hosts.map", hosts),
			artifact(checkpoint.Map, "maps/none.map", ""),
			artifact(checkpoint.General, "general/503.http", "HTTP/1.0 503 Service Unavailable\r\n\r\n"),
			artifact(checkpoint.GeneralCA, "general/upstream_ca.pem", "-----BEGIN CERTIFICATE-----\nZ2VuZXJhbA==\n-----END CERTIFICATE-----\n"),
			artifact(checkpoint.Certificate, "ssl/shop_example.pem", "-----BEGIN PRIVATE KEY-----\n"+keyBytes+"\n-----END PRIVATE KEY-----\n"),
			artifact(checkpoint.CA, "ssl/clients.pem", "-----BEGIN CERTIFICATE-----\nY2xpZW50cw==\n-----END CERTIFICATE-----\n"),
			artifact(checkpoint.CRTList, "ssl/list.txt", "ssl/shop_example.pem [alpn h2] shop.example\n"+strings.Repeat("# filler\n", 300)),
		},
	}
	o.SortArtifacts()
	addFile := func(path, kind string, content []byte) {
		p.Files = append(p.Files, plan.File{Path: path, Kind: kind, Digest: plan.Digest(content), Size: int64(len(content))})
	}
	addFile(plan.ConfigPath, plan.FileConfig, o.Configuration)
	for _, a := range o.Artifacts {
		addFile(a.RuntimePath, a.Family.FileKind(), a.Content)
		if a.Family == checkpoint.Map {
			p.Maps[a.RuntimePath] = plan.Map{Path: a.RuntimePath, Entries: plan.MapEntries(a.Content)}
		}
	}
	id, err := p.ComputeID()
	if err != nil {
		t.Fatalf("computing the plan's ID: %v", err)
	}
	p.ID = id
	return o
}

func artifact(family checkpoint.Family, path, content string) checkpoint.Artifact {
	base := path[strings.LastIndex(path, "/")+1:]
	d := checkpoint.Descriptor{Family: family, Name: base, Path: "/etc/haproxy/" + path, RuntimePath: path}
	if family == checkpoint.Map {
		d.Name = d.Path
	}
	return checkpoint.Artifact{Descriptor: d, Content: []byte(content)}
}

// newExport stores two outputs as our publisher does.
func newExport(t testing.TB) *export {
	t.Helper()
	e := &export{}
	e.template = &v1alpha1.HAProxyTemplateConfig{ObjectMeta: e.meta(templateName, templateUID)}
	e.template.Spec.PodSelector.MatchLabels = map[string]string{"app": "proxy"}
	e.template.Spec.HAProxyConfig.Template = "global\n"
	older, newer := output(t, "old.example app\n"), output(t, "shop.example app\n")
	e.predecessor = e.store(t, older, "10000000-0000-4000-8000-00000000000a")
	e.newest = e.store(t, newer, "10000000-0000-4000-8000-00000000000b")

	e.ordinary = &v1alpha1.HAProxyCfg{ObjectMeta: e.owned(checkpoint.OrdinaryName(templateName), "10000000-0000-4000-8000-00000000000c")}
	e.ordinary.Labels = map[string]string{v1alpha1.LabelTemplateConfig: templateName}
	e.ordinary.Spec = v1alpha1.HAProxyCfgSpec{Path: newer.ConfigurationPath, Content: string(newer.Configuration), Checksum: newer.Checksum()}
	for _, cfg := range []*v1alpha1.HAProxyCfg{e.newest, e.predecessor} {
		e.ordinary.Status.RetainedConfigs = append(e.ordinary.Status.RetainedConfigs,
			v1alpha1.RetainedConfigReference{Name: cfg.Name, UID: cfg.UID, Checksum: cfg.Spec.Checksum})
	}
	e.ordinary.Status.DeployedToPods = e.newest.Status.DeployedToPods

	intent := fencing.Intent{
		UID: templateUID, Epoch: 3, Claim: "CLAIM", PlanID: newer.Plan.ID, Checksum: newer.Checksum(), Holder: "controller-1",
	}
	e.retained = record.NewRetainedLease(namespace, checkpoint.RetainedStateLeaseName(templateName), fencing.TemplateRef{Name: templateName, UID: templateUID}, intent)
	e.retained.UID = "10000000-0000-4000-8000-00000000000d"
	e.retained.CreationTimestamp = created
	holder, transitions := "controller-1", int32(2)
	e.leader = record.WithEpoch(&coordinationv1.Lease{
		ObjectMeta: e.meta(templateName+"-leader", "10000000-0000-4000-8000-00000000000e"),
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: &transitions,
			AcquireTime: &metav1.MicroTime{Time: created.Add(time.Hour)},
		},
	}, 3, fencing.TemplateRef{Name: templateName, UID: templateUID})
	e.others = []runtime.Object{
		&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: e.meta("unrelated", "x")},
	}
	return e
}

var created = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func (e *export) meta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: "7", CreationTimestamp: created}
}

func (e *export) owned(name, uid string) metav1.ObjectMeta {
	m, controller := e.meta(name, uid), true
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindTemplateConfig,
		Name: templateName, UID: templateUID, Controller: &controller, BlockOwnerDeletion: &controller,
	}}
	return m
}

// store adds a checkpoint and those of its files that are not there yet.
func (e *export) store(t testing.TB, o *checkpoint.Output, uid string) *v1alpha1.HAProxyCfg {
	t.Helper()
	payload, err := checkpoint.EncodePayload(o)
	if err != nil {
		t.Fatalf("encoding a payload: %v", err)
	}
	cfg := &v1alpha1.HAProxyCfg{ObjectMeta: e.owned(checkpoint.CheckpointName(templateName, o.Checksum(), payload), uid)}
	cfg.Labels = map[string]string{v1alpha1.LabelTemplateConfig: templateName, v1alpha1.LabelRetainedFor: templateUID}
	cfg.Spec = v1alpha1.HAProxyCfgSpec{
		Path: o.ConfigurationPath, Content: string(o.Configuration), Checksum: o.Checksum(), RetainedPlan: payload,
	}
	refs := &v1alpha1.AuxiliaryFileReferences{}
	var checksums []string
	for i := range o.Artifacts {
		checksums = append(checksums, checkpoint.FileChecksum(o.Artifacts[i].Content))
		e.storeChild(&o.Artifacts[i], refs)
	}
	refs.SetID = checkpoint.SetID(o.Descriptors(), checksums)
	cfg.Annotations = map[string]string{v1alpha1.AnnotationAuxiliarySetID: refs.SetID}
	cfg.Status.AuxiliaryFiles = refs
	cfg.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{
		PodName: "proxy-0", PodUID: "pod-uid", PodRuntimeID: "containerd://1", Checksum: o.Checksum(),
		AppliedPlanID: o.Plan.ID, RunningPlanID: o.Plan.ID, WorkerOpsPlanID: o.Plan.ID, Mode: v1alpha1.ModeReload,
	}}
	return cfg
}

func (e *export) storeChild(a *checkpoint.Artifact, refs *v1alpha1.AuxiliaryFileReferences) {
	sum := checkpoint.FileChecksum(a.Content)
	name := checkpoint.SharedChildName(a.Descriptor, sum, templateName, templateUID)
	ref := v1alpha1.FileReference{Kind: a.Family.Kind(), Name: name, Namespace: namespace}
	list := map[checkpoint.Family]*[]v1alpha1.FileReference{
		checkpoint.Map: &refs.MapFiles, checkpoint.General: &refs.GeneralFiles, checkpoint.GeneralCA: &refs.GeneralFiles,
		checkpoint.Certificate: &refs.SSLCertificates, checkpoint.CA: &refs.SSLCaFiles, checkpoint.CRTList: &refs.CRTListFiles,
	}[a.Family]
	*list = append(*list, ref)
	for _, there := range e.stored() {
		if there.(metav1.Object).GetName() == name {
			return
		}
	}
	text, compressed := checkpoint.Store(a.Content, 1024)
	m := e.owned(name, fmt.Sprintf("20000000-0000-4000-8000-%012d", len(e.stored())))
	base, empty := a.Path[strings.LastIndex(a.Path, "/")+1:], len(a.Content) == 0
	switch a.Family {
	case checkpoint.Map:
		e.maps = append(e.maps, &v1alpha1.HAProxyMapFile{ObjectMeta: m, Spec: v1alpha1.HAProxyMapFileSpec{
			MapName: base, Path: a.Path, Entries: text, Empty: empty, Checksum: sum, Compressed: compressed,
		}})
	case checkpoint.General, checkpoint.GeneralCA:
		e.general = append(e.general, &v1alpha1.HAProxyGeneralFile{ObjectMeta: m, Spec: v1alpha1.HAProxyGeneralFileSpec{
			FileName: a.Name, Path: a.Path, Content: text, Checksum: sum, Compressed: compressed, CAFile: a.Family.IsCA(),
		}})
	case checkpoint.CRTList:
		e.crtLists = append(e.crtLists, &v1alpha1.HAProxyCRTListFile{ObjectMeta: m, Spec: v1alpha1.HAProxyCRTListFileSpec{
			ListName: base, Path: a.Path, Entries: text, Checksum: sum, Compressed: compressed,
		}})
	default:
		e.secrets = append(e.secrets, secretOf(m, a, text, sum, compressed))
	}
}

func secretOf(m metav1.ObjectMeta, a *checkpoint.Artifact, text, sum string, compressed bool) *corev1.Secret {
	role, key := v1alpha1.SecretTypeCertificate, v1alpha1.SecretKeyCertificate
	if a.Family.IsCA() {
		role, key = v1alpha1.SecretTypeCA, v1alpha1.SecretKeyCA
	}
	m.Labels = map[string]string{v1alpha1.LabelType: role}
	m.Annotations = map[string]string{
		v1alpha1.AnnotationAuxiliaryPath: a.Path, v1alpha1.AnnotationChecksum: sum,
		v1alpha1.AnnotationCompressed: fmt.Sprint(compressed),
	}
	return &corev1.Secret{
		ObjectMeta: m, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{key: []byte(text), v1alpha1.SecretKeyPath: []byte(a.Path)},
	}
}

// stored are all objects with their types, as an API server lists them.
func (e *export) stored() []runtime.Object {
	haptic := v1alpha1.SchemeGroupVersion.String()
	var objects []runtime.Object
	add := func(o runtime.Object, apiVersion, kind string) {
		o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
		objects = append(objects, o)
	}
	if e.template != nil {
		add(e.template, haptic, v1alpha1.KindTemplateConfig)
	}
	for _, cfg := range []*v1alpha1.HAProxyCfg{e.ordinary, e.newest, e.predecessor} {
		if cfg != nil {
			add(cfg, haptic, v1alpha1.KindCfg)
		}
	}
	for _, o := range e.maps {
		add(o, haptic, v1alpha1.KindMapFile)
	}
	for _, o := range e.general {
		add(o, haptic, v1alpha1.KindGeneralFile)
	}
	for _, o := range e.crtLists {
		add(o, haptic, v1alpha1.KindCRTListFile)
	}
	for _, o := range e.secrets {
		add(o, "v1", v1alpha1.KindSecret)
	}
	for _, o := range []*coordinationv1.Lease{e.leader, e.retained} {
		if o != nil {
			add(o, "coordination.k8s.io/v1", KindLease)
		}
	}
	return append(objects, e.others...)
}
