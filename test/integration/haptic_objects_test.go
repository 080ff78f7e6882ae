package integration

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// hapticHolder is an identity of HAPTIC in leader election: its pod's name.
const hapticHolder = "haptic-controller-6c9d8b7f55-x2x4k"

// hapticRelease stores a template with one promoted checkpoint as a release of
// HAPTIC did. None of it carries this project's additions.
type hapticRelease struct {
	t        *testing.T
	template string
	// leaseName is what the template says of its leader-election Lease; the
	// default if empty.
	leaseName string
	// shared is the form of 0.7: the files are owned by the template, and the
	// intent is on the retained-state Lease. Before, the files were the
	// checkpoint's own, and the intent was on the leader-election Lease.
	shared bool

	core   kubernetes.Interface
	haptic versioned.Interface
	uid    types.UID
	output *checkpoint.Output
}

// store makes everything and returns the checkpoint's name.
func (h *hapticRelease) store() (name string) {
	h.t.Helper()
	config := realConfig(h.t)
	h.core, h.haptic = kubernetes.NewForConfigOrDie(config), versioned.NewForConfigOrDie(config)
	h.output = everyFamily(h.t)
	template := &stored.HAProxyTemplateConfig{
		ObjectMeta: metav1.ObjectMeta{Name: h.template},
		Spec: stored.HAProxyTemplateConfigSpec{
			PodSelector:   stored.PodSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "haptic"}},
			HAProxyConfig: stored.Template{Template: "global\n"},
		},
	}
	template.Spec.Controller.LeaderElection.LeaseName = h.leaseName
	made, err := h.haptic.HapticV1alpha1().HAProxyTemplateConfigs(hapticNamespace).Create(h.t.Context(), template, metav1.CreateOptions{})
	h.must(err)
	h.uid = made.UID

	payload := h.payload()
	cfg := h.outputObject(checkpoint.CheckpointName(h.template, h.output.Checksum(), payload))
	cfg.Labels[stored.LabelRetainedFor] = string(h.uid)
	cfg.Spec.RetainedPlan = payload
	retained := h.put(cfg, stored.HAProxyCfgStatus{})
	status := stored.HAProxyCfgStatus{AuxiliaryFiles: h.files(retained), DeployedToPods: h.receipt()}
	retained.Status = status
	_, err = h.haptic.HapticV1alpha1().HAProxyCfgs(hapticNamespace).UpdateStatus(h.t.Context(), retained, metav1.UpdateOptions{})
	h.must(err)

	h.put(h.outputObject(checkpoint.OrdinaryName(h.template)), stored.HAProxyCfgStatus{
		RetainedConfigs: []stored.RetainedConfigReference{{Name: retained.Name, UID: retained.UID, Checksum: h.output.Checksum()}},
		DeployedToPods:  h.receipt(),
	})
	h.leases()
	return retained.Name
}

// payload is spec.retainedPlan without the evidence, which HAPTIC does not write.
func (h *hapticRelease) payload() string {
	h.t.Helper()
	text, err := checkpoint.EncodePayload(h.output)
	h.must(err)
	raw, err := checkpoint.Load(text, true, nil)
	h.must(err)
	var outer struct {
		Plan      json.RawMessage `json:"plan"`
		Artifacts json.RawMessage `json:"artifacts"`
	}
	h.must(json.Unmarshal(raw, &outer))
	raw, err = json.Marshal(outer)
	h.must(err)
	packed, compressed := checkpoint.Store(raw, 1)
	if !compressed {
		h.t.Fatal("the payload is too short to be compressed")
	}
	return packed
}

func (h *hapticRelease) outputObject(name string) *stored.HAProxyCfg {
	return &stored.HAProxyCfg{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{stored.LabelTemplateConfig: h.template},
			Annotations:     map[string]string{stored.AnnotationAuxiliarySetID: h.setID()},
			OwnerReferences: owners(stored.KindTemplateConfig, h.template, h.uid),
		},
		Spec: stored.HAProxyCfgSpec{
			Path: h.output.ConfigurationPath, Content: string(h.output.Configuration), Checksum: h.output.Checksum(),
		},
	}
}

func (h *hapticRelease) setID() string {
	var sums []string
	for _, a := range h.output.Artifacts {
		sums = append(sums, checkpoint.FileChecksum(a.Content))
	}
	return checkpoint.SetID(h.output.Descriptors(), sums)
}

func (h *hapticRelease) put(cfg *stored.HAProxyCfg, status stored.HAProxyCfgStatus) *stored.HAProxyCfg {
	h.t.Helper()
	client := h.haptic.HapticV1alpha1().HAProxyCfgs(hapticNamespace)
	made, err := client.Create(h.t.Context(), cfg, metav1.CreateOptions{})
	h.must(err)
	made.Status = status
	made, err = client.UpdateStatus(h.t.Context(), made, metav1.UpdateOptions{})
	h.must(err)
	return made
}

func (h *hapticRelease) receipt() []stored.PodDeploymentStatus {
	return []stored.PodDeploymentStatus{{
		PodName: "haproxy-0", PodUID: "0f0e6c52-1111-4222-8333-444455556666", PodRuntimeID: "run-1", Checksum: h.output.Checksum(),
		AppliedPlanID: h.output.Plan.ID, RunningPlanID: h.output.Plan.ID, Mode: stored.ModeReload,
	}}
}

// files stores the checkpoint's files and returns the references to them. The
// names of 0.7 are not published; ours have another stem and suffix on purpose.
func (h *hapticRelease) files(owner *stored.HAProxyCfg) *stored.AuxiliaryFileReferences {
	h.t.Helper()
	references := &stored.AuxiliaryFileReferences{SetID: h.setID()}
	for i := range h.output.Artifacts {
		a := &h.output.Artifacts[i]
		sum := checkpoint.FileChecksum(a.Content)
		meta := metav1.ObjectMeta{Annotations: map[string]string{stored.AnnotationAuxiliaryClaim: "XQ2Z7V5N3M4K6J7H8G9F2D3S4A"}}
		if h.shared {
			meta.Name = "haproxy-of-07" + a.ContentSuffix(sum) + "-shared"
			meta.OwnerReferences = owners(stored.KindTemplateConfig, h.template, h.uid)
		} else {
			meta.Name = "haproxy-of-06" + a.ContentSuffix(sum) + owner.Name[strings.Index(owner.Name, "-retained-"):]
			meta.OwnerReferences = owners(stored.KindCfg, owner.Name, owner.UID)
			meta.Labels = map[string]string{stored.LabelRuntimeConfig: checkpoint.LabelValue(owner.Name)}
		}
		list := h.file(meta, a, sum, references)
		*list = append(*list, stored.FileReference{Kind: a.Family.Kind(), Name: meta.Name, Namespace: hapticNamespace})
	}
	return references
}

// file stores one file and returns the list that references it.
func (h *hapticRelease) file(
	meta metav1.ObjectMeta, a *checkpoint.Artifact, sum string, references *stored.AuxiliaryFileReferences,
) *[]stored.FileReference {
	h.t.Helper()
	ctx, client, text, empty := h.t.Context(), h.haptic.HapticV1alpha1(), string(a.Content), len(a.Content) == 0
	var err error
	switch a.Family {
	case checkpoint.Map:
		_, err = client.HAProxyMapFiles(hapticNamespace).Create(ctx, &stored.HAProxyMapFile{ObjectMeta: meta, Spec: stored.HAProxyMapFileSpec{
			MapName: path.Base(a.Path), Path: a.Path, Entries: text, Empty: empty, Checksum: sum,
		}}, metav1.CreateOptions{})
		h.must(err)
		return &references.MapFiles
	case checkpoint.CRTList:
		_, err = client.HAProxyCRTListFiles(hapticNamespace).Create(ctx, &stored.HAProxyCRTListFile{ObjectMeta: meta, Spec: stored.HAProxyCRTListFileSpec{
			ListName: path.Base(a.Path), Path: a.Path, Entries: text, Empty: empty, Checksum: sum,
		}}, metav1.CreateOptions{})
		h.must(err)
		return &references.CRTListFiles
	case checkpoint.Certificate:
		h.secret(meta, a, sum, stored.SecretTypeCertificate, stored.SecretKeyCertificate)
		return &references.SSLCertificates
	case checkpoint.CA:
		h.secret(meta, a, sum, stored.SecretTypeCA, stored.SecretKeyCA)
		return &references.SSLCaFiles
	default:
		_, err = client.HAProxyGeneralFiles(hapticNamespace).Create(ctx, &stored.HAProxyGeneralFile{ObjectMeta: meta, Spec: stored.HAProxyGeneralFileSpec{
			FileName: a.Name, Path: a.Path, Content: text, Empty: empty, Checksum: sum, CAFile: a.Family == checkpoint.GeneralCA,
		}}, metav1.CreateOptions{})
		h.must(err)
		return &references.GeneralFiles
	}
}

func (h *hapticRelease) secret(meta metav1.ObjectMeta, a *checkpoint.Artifact, sum, role, key string) {
	h.t.Helper()
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	meta.Labels[stored.LabelType] = role
	meta.Annotations[stored.AnnotationAuxiliaryPath] = a.Path
	meta.Annotations[stored.AnnotationChecksum] = sum
	meta.Annotations[stored.AnnotationCompressed] = strconv.FormatBool(false)
	_, err := h.core.CoreV1().Secrets(hapticNamespace).Create(h.t.Context(), &corev1.Secret{
		ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{key: a.Content, stored.SecretKeyPath: []byte(a.Path)},
	}, metav1.CreateOptions{})
	h.must(err)
}

// leases stores the leader-election Lease, held and renewed as by a living
// controller, and for 0.7 the retained-state Lease. How 0.7 calls the member for
// the holder is not published, so it is called otherwise here.
func (h *hapticRelease) leases() {
	h.t.Helper()
	name := h.leaseName
	if name == "" {
		name = "haptic-leader"
	}
	intent := fmt.Sprintf(`{"uid":%q,"epoch":4,"claim":"ZLBQ4HGXUMEY7ZJ5KNRW6CDO3A","planID":%q,"checksum":%q`,
		h.uid, h.output.Plan.ID, h.output.Checksum())
	holder, now, seconds, transitions := hapticHolder, metav1.NewMicroTime(time.Now()), int32(60), int32(3)
	leader := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{stored.AnnotationLeaderEpoch: "4"}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions,
		},
	}
	made := []*coordinationv1.Lease{leader}
	if h.shared {
		owned := owners(stored.KindTemplateConfig, h.template, h.uid)
		owned[0].BlockOwnerDeletion = nil
		made = append(made, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name:            checkpoint.RetainedStateLeaseName(h.template),
			OwnerReferences: owned,
			Annotations:     map[string]string{stored.AnnotationDeploymentIntent: intent + fmt.Sprintf(`,"heldBy":%q}`, hapticHolder)},
		}})
	} else {
		leader.Annotations[stored.AnnotationDeploymentIntent] = intent + "}"
	}
	for _, lease := range made {
		_, err := h.core.CoordinationV1().Leases(hapticNamespace).Create(h.t.Context(), lease, metav1.CreateOptions{})
		h.must(err)
	}
}

func owners(kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: stored.SchemeGroupVersion.String(), Kind: kind, Name: name, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes,
	}}
}

func (h *hapticRelease) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}
