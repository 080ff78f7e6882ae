package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

func objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7", Generation: 3,
		CreationTimestamp: metav1.Unix(100, 0),
		DeletionTimestamp: ptr(metav1.Unix(200, 0)),
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "bystander", UID: "b"},
			{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyTemplateConfig", Name: "web", UID: "t", Controller: ptr(true)},
			{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: ptr(false)},
		},
	}
}

var translatedMeta = checkpoint.Meta{
	Namespace: "ns", Name: "name", UID: "uid", ResourceVersion: "7", Generation: 3,
	Created: time.Unix(100, 0), Terminating: true,
	Owners: []checkpoint.Owner{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "bystander", UID: "b"},
		{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyTemplateConfig", Name: "web", UID: "t", Controller: true},
		{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"},
	},
}

func TestCheckpointCarriesEveryFieldOver(t *testing.T) {
	cfg := &v1alpha1.HAProxyCfg{ObjectMeta: objectMeta()}
	cfg.Labels = map[string]string{"haproxy-haptic.org/template-config": "web", "haproxy-haptic.org/retained-for": "t"}
	cfg.Annotations = map[string]string{"haproxy-haptic.org/auxiliary-set-id": "set"}
	cfg.Spec = v1alpha1.HAProxyCfgSpec{Path: "/p", Content: "text", Checksum: "sum", Compressed: true, RetainedPlan: "plan"}
	cfg.Status.AuxiliaryFiles = &v1alpha1.AuxiliaryFileReferences{
		SetID:           "set",
		MapFiles:        []v1alpha1.FileReference{{Kind: "HAProxyMapFile", Name: "m", Namespace: "ns"}},
		SSLCertificates: []v1alpha1.FileReference{{Kind: "Secret", Name: "c", Namespace: "ns"}},
		SSLCaFiles:      []v1alpha1.FileReference{{Kind: "Secret", Name: "a"}},
		GeneralFiles:    []v1alpha1.FileReference{{Kind: "HAProxyGeneralFile", Name: "g", Namespace: "other"}},
		CRTListFiles:    []v1alpha1.FileReference{{Kind: "HAProxyCRTListFile", Name: "l", Namespace: "ns"}},
		Unsupported:     []string{"later"},
	}
	cfg.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{
		PodName: "p", PodUID: "u", PodRuntimeID: "r", Checksum: "sum", AppliedPlanID: "A", RunningPlanID: "R", WorkerOpsPlanID: "W",
		Mode: "noop", Reasons: []string{"x"}, LastError: "e", ConsecutiveErrors: 1,
	}}
	want := &checkpoint.StoredCheckpoint{
		Meta: translatedMeta, TemplateLabel: "web", RetainedFor: "t",
		Path: "/p", Content: "text", Checksum: "sum", Compressed: true, RetainedPlan: "plan", SetIDAnnotation: "set",
		References: &checkpoint.References{SetID: "set", Lists: []checkpoint.Reference{
			{List: checkpoint.Map, Kind: "HAProxyMapFile", Name: "m", Namespace: "ns"},
			{List: checkpoint.General, Kind: "HAProxyGeneralFile", Name: "g", Namespace: "other"},
			{List: checkpoint.CRTList, Kind: "HAProxyCRTListFile", Name: "l", Namespace: "ns"},
			{List: checkpoint.Certificate, Kind: "Secret", Name: "c", Namespace: "ns"},
			{List: checkpoint.CA, Kind: "Secret", Name: "a"},
		}, Unsupported: []string{"later"}},
		Receipts: []checkpoint.PodEntry{{
			PodName: "p", PodUID: "u", PodRuntimeID: "r", Checksum: "sum", AppliedPlanID: "A", RunningPlanID: "R", WorkerOpsPlanID: "W",
			Mode: "noop", LastError: "e",
		}},
	}
	if diff := cmp.Diff(want, Checkpoint(cfg)); diff != "" {
		t.Errorf("Checkpoint (-want +got):\n%s", diff)
	}

	cfg.Status.AuxiliaryFiles = nil
	if got := Checkpoint(cfg); got.References != nil {
		t.Errorf("absent references are %+v", got.References)
	}
}

func TestIsCheckpoint(t *testing.T) {
	labelled := metav1.ObjectMeta{Labels: map[string]string{"haproxy-haptic.org/retained-for": "t"}}
	tests := []struct {
		name string
		cfg  v1alpha1.HAProxyCfg
		want bool
	}{
		{name: "an ordinary output", cfg: v1alpha1.HAProxyCfg{}},
		{name: "a payload", cfg: v1alpha1.HAProxyCfg{Spec: v1alpha1.HAProxyCfgSpec{RetainedPlan: "x"}}, want: true},
		{name: "a label whose payload is gone", cfg: v1alpha1.HAProxyCfg{ObjectMeta: labelled}, want: true},
		{name: "a name whose payload and labels are gone", cfg: v1alpha1.HAProxyCfg{ObjectMeta: metav1.ObjectMeta{Name: "web-haproxycfg-retained-0"}}, want: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := IsCheckpoint(&tc.cfg); got != tc.want {
				t.Errorf("IsCheckpoint: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestOrdinary(t *testing.T) {
	cfg := &v1alpha1.HAProxyCfg{}
	cfg.Status.RetainedConfigs = []v1alpha1.RetainedConfigReference{{Name: "b", UID: "2", Checksum: "s2"}, {Name: "a", UID: "1", Checksum: "s1"}}
	cfg.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{{PodName: "p", Checksum: "s2"}}
	pointers, pods := Ordinary(cfg)
	if diff := cmp.Diff([]checkpoint.Pointer{{Name: "b", UID: "2", Checksum: "s2"}, {Name: "a", UID: "1", Checksum: "s1"}}, pointers); diff != "" {
		t.Errorf("pointers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]checkpoint.PodEntry{{PodName: "p", Checksum: "s2"}}, pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestFiles(t *testing.T) {
	m := &v1alpha1.HAProxyMapFile{ObjectMeta: objectMeta(), Spec: v1alpha1.HAProxyMapFileSpec{MapName: "m", Path: "/m", Entries: "e", Checksum: "s", Compressed: true}}
	g := &v1alpha1.HAProxyGeneralFile{ObjectMeta: objectMeta(), Spec: v1alpha1.HAProxyGeneralFileSpec{FileName: "g", Path: "/g", Checksum: "s", Empty: true}}
	ca := &v1alpha1.HAProxyGeneralFile{ObjectMeta: objectMeta(), Spec: v1alpha1.HAProxyGeneralFileSpec{FileName: "g", Path: "/g", Content: "c", Checksum: "s", CAFile: true}}
	l := &v1alpha1.HAProxyCRTListFile{ObjectMeta: objectMeta(), Spec: v1alpha1.HAProxyCRTListFileSpec{ListName: "l", Path: "/l", Entries: "e", Checksum: "s"}}
	tests := []struct {
		name      string
		got, want *checkpoint.StoredChild
	}{
		{"a map", MapFile(m), &checkpoint.StoredChild{Meta: translatedMeta, Kind: "HAProxyMapFile", Family: checkpoint.Map, Path: "/m", Text: "e", Checksum: "s", Compressed: true}},
		{"a general file", GeneralFile(g), &checkpoint.StoredChild{Meta: translatedMeta, Kind: "HAProxyGeneralFile", Family: checkpoint.General, Path: "/g", FileName: "g", Checksum: "s", Empty: true}},
		{"a CA bundle", GeneralFile(ca), &checkpoint.StoredChild{Meta: translatedMeta, Kind: "HAProxyGeneralFile", Family: checkpoint.GeneralCA, Path: "/g", FileName: "g", Text: "c", Checksum: "s"}},
		{"a crt-list", CRTListFile(l), &checkpoint.StoredChild{Meta: translatedMeta, Kind: "HAProxyCRTListFile", Family: checkpoint.CRTList, Path: "/l", Text: "e", Checksum: "s"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("child (-want +got):\n%s", diff)
			}
		})
	}
}

func certificate() *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: objectMeta(), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"certificate": []byte("pem"), "path": []byte("/c.pem")}}
	s.Labels = map[string]string{"haproxy-haptic.org/type": "ssl-certificate"}
	s.Annotations = map[string]string{
		"haproxy-haptic.org/auxiliary-path": "/c.pem", "haproxy-haptic.org/checksum": "s", "haproxy-haptic.org/compressed": "false",
	}
	return s
}

func TestSecret(t *testing.T) {
	sound := checkpoint.StoredChild{Meta: translatedMeta, Kind: "Secret", Family: checkpoint.Certificate, Path: "/c.pem", Text: "pem", Checksum: "s"}
	malformed := func(message string) []checkpoint.Finding {
		return []checkpoint.Finding{{State: checkpoint.Damaged, Reason: checkpoint.ReasonSecretMalformed, Message: "Secret/name: " + message}}
	}
	tests := []struct {
		name   string
		change func(s *corev1.Secret)
		want   func(c *checkpoint.StoredChild)
	}{
		{name: "a certificate"},
		{
			name: "a compressed CA bundle",
			change: func(s *corev1.Secret) {
				s.Labels["haproxy-haptic.org/type"] = "ssl-ca"
				s.Data["ca"] = s.Data["certificate"]
				delete(s.Data, "certificate")
				s.Annotations["haproxy-haptic.org/compressed"] = "true"
			},
			want: func(c *checkpoint.StoredChild) { c.Family, c.Compressed = checkpoint.CA, true },
		},
		{
			name:   "another type",
			change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeTLS },
			want: func(c *checkpoint.StoredChild) {
				c.Problems = malformed(`type: expected "Opaque", found "kubernetes.io/tls"`)
			},
		},
		{
			name:   "the label of the other role",
			change: func(s *corev1.Secret) { s.Labels["haproxy-haptic.org/type"] = "ssl-ca" },
			want: func(c *checkpoint.StoredChild) {
				c.Problems = malformed(`label haproxy-haptic.org/type: expected "ssl-certificate", found "ssl-ca"`)
			},
		},
		{
			name:   "no label",
			change: func(s *corev1.Secret) { s.Labels = nil },
			want: func(c *checkpoint.StoredChild) {
				c.Problems = malformed(`label haproxy-haptic.org/type: expected "ssl-certificate", found ""`)
			},
		},
		{
			name:   "no content",
			change: func(s *corev1.Secret) { s.Data["x"] = s.Data["certificate"]; delete(s.Data, "certificate") },
			want: func(c *checkpoint.StoredChild) {
				c.Text, c.Problems = "", malformed(`data has no key "certificate"`)
			},
		},
		{
			name:   "a third key",
			change: func(s *corev1.Secret) { s.Data["key-material"] = []byte("x") },
			want: func(c *checkpoint.StoredChild) {
				c.Problems = malformed(`data has 3 keys, expected "certificate" and "path"`)
			},
		},
		{
			name:   "another path in data",
			change: func(s *corev1.Secret) { s.Data["path"] = []byte("/other") },
			want: func(c *checkpoint.StoredChild) {
				c.Problems = malformed(`data path differs from annotation haproxy-haptic.org/auxiliary-path, which is "/c.pem"`)
			},
		},
		{
			name: "no path at all",
			change: func(s *corev1.Secret) {
				s.Data["path"] = nil
				delete(s.Annotations, "haproxy-haptic.org/auxiliary-path")
			},
			want: func(c *checkpoint.StoredChild) {
				c.Path, c.Problems = "", malformed(`data path differs from annotation haproxy-haptic.org/auxiliary-path, which is ""`)
			},
		},
		{
			name:   "neither true nor false",
			change: func(s *corev1.Secret) { s.Annotations["haproxy-haptic.org/compressed"] = "True" },
			want: func(c *checkpoint.StoredChild) {
				c.Problems = malformed(`annotation haproxy-haptic.org/compressed: expected "true" or "false", found "True"`)
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s, want := certificate(), sound
			if tc.change != nil {
				tc.change(s)
			}
			if tc.want != nil {
				tc.want(&want)
			}
			if diff := cmp.Diff(&want, Secret(s)); diff != "" {
				t.Errorf("Secret (-want +got):\n%s", diff)
			}
		})
	}
}
