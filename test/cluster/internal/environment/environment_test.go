package environment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objects is every ConfigMap and Secret there is, by name.
type objects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
}

func (o objects) GetConfigMap(_, name string) (*corev1.ConfigMap, error) {
	data, ok := o.configMaps[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return &corev1.ConfigMap{Data: data}, nil
}

func (o objects) GetSecret(_, name string) (*corev1.Secret, error) {
	data, ok := o.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	return &corev1.Secret{Data: data}, nil
}

var testPod = &corev1.Pod{
	ObjectMeta: metav1.ObjectMeta{
		Name: "web-1", Namespace: "shop", UID: "u-1",
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "hello"},
	},
	Spec:   corev1.PodSpec{NodeName: "devnode", ServiceAccountName: "seller"},
	Status: corev1.PodStatus{PodIP: "10.244.0.9", PodIPs: []corev1.PodIP{{IP: "10.244.0.9"}}, HostIP: "10.244.0.1"},
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func configKey(name, object, key string, optional bool) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: &optional,
	}}}
}

func TestBuild(t *testing.T) {
	known := objects{
		configMaps: map[string]map[string]string{"settings": {"color": "red"}},
		secrets:    map[string]map[string][]byte{"keys": {"token": []byte("s3cret")}},
	}
	tests := []struct {
		name      string
		container corev1.Container
		want      Variables
		fails     bool
	}{
		{name: "what the node sets is there", want: Variables{"PATH": "/bin"}},
		{
			name:      "a value may refer to what is above it and to the node's",
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(PATH)"}}},
			want:      Variables{"PATH": "/bin", "A": "1", "B": "1-/bin"},
		},
		{
			name:      "an unknown or escaped reference stays as it is",
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "$(NOPE) $$(PATH)"}}},
			want:      Variables{"PATH": "/bin", "A": "$(NOPE) $(PATH)"},
		},
		{
			name: "the pod's own facts",
			container: corev1.Container{Env: []corev1.EnvVar{
				field("NAME", "metadata.name"), field("NS", "metadata.namespace"), field("UID", "metadata.uid"),
				field("APP", "metadata.labels['app']"), field("NOTE", "metadata.annotations['note']"),
				field("IP", "status.podIP"), field("IPS", "status.podIPs"), field("HOST", "status.hostIP"),
				field("NODE", "spec.nodeName"), field("SA", "spec.serviceAccountName"),
			}},
			want: Variables{"PATH": "/bin", "NAME": "web-1", "NS": "shop", "UID": "u-1", "APP": "web", "NOTE": "hello",
				"IP": "10.244.0.9", "IPS": "10.244.0.9", "HOST": "10.244.0.1", "NODE": "devnode", "SA": "seller"},
		},
		{
			name:      "a key of a ConfigMap",
			container: corev1.Container{Env: []corev1.EnvVar{configKey("C", "settings", "color", false)}},
			want:      Variables{"PATH": "/bin", "C": "red"},
		},
		{
			name:      "an optional key that is not there is left out",
			container: corev1.Container{Env: []corev1.EnvVar{configKey("C", "settings", "size", true), configKey("D", "none", "x", true)}},
			want:      Variables{"PATH": "/bin"},
		},
		{
			name:      "a missing key is an error",
			container: corev1.Container{Env: []corev1.EnvVar{configKey("C", "settings", "size", false)}},
			fails:     true,
		},
		{
			name: "whole objects, with a prefix",
			container: corev1.Container{EnvFrom: []corev1.EnvFromSource{
				{Prefix: "CM_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
			}},
			want: Variables{"PATH": "/bin", "CM_color": "red", "token": "s3cret"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Build(testPod, &tc.container, Variables{"PATH": "/bin"}, known)
			if (err != nil) != tc.fails {
				t.Fatalf("error %v, want one: %v", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	got := Expand([]string{"--bind", "$(IP):80", "$$(IP)"}, Variables{"IP": "10.244.0.9"})
	if diff := cmp.Diff([]string{"--bind", "10.244.0.9:80", "$(IP)"}, got); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
}
