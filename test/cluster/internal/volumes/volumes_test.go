package volumes

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/cluster/internal/environment"
	"github.com/holdfast-project/holdfast/test/cluster/internal/process/entry"
)

// objects is everything there is; it may change between calls.
type objects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
	requests   []*authenticationv1.TokenRequest
}

func (o *objects) GetConfigMap(_, name string) (*corev1.ConfigMap, error) {
	data, ok := o.configMaps[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return &corev1.ConfigMap{Data: data}, nil
}

func (o *objects) GetSecret(_, name string) (*corev1.Secret, error) {
	data, ok := o.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	return &corev1.Secret{Data: data}, nil
}

func (o *objects) GetToken(_, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	o.requests = append(o.requests, request)
	return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "token of " + account}}, nil
}

func podWith(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u-1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{ServiceAccountName: "seller", Volumes: volumes},
	}
}

func volume(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

func configMap(name string) *corev1.ConfigMapVolumeSource {
	return &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
}

// visible reads the files of a volume as a container sees them.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, item fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(item.Name(), "..") {
			if item.IsDir() {
				return fs.SkipDir
			}
			return err
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		info, err := os.Stat(real)
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(real)
		name, _ := filepath.Rel(dir, path)
		files[name] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFill(t *testing.T) {
	yes := true
	mode := int32(0o600)
	known := func() *objects {
		return &objects{
			configMaps: map[string]map[string]string{"settings": {"color": "red", "size": "xl"}},
			secrets:    map[string]map[string][]byte{"keys": {"token": []byte("s3cret")}},
		}
	}
	tests := []struct {
		name   string
		source corev1.VolumeSource
		want   map[string]string
		err    string
	}{
		{name: "a ConfigMap's keys become files", source: corev1.VolumeSource{ConfigMap: configMap("settings")}, want: map[string]string{"color": "-rw-r--r-- red", "size": "-rw-r--r-- xl"}},
		{
			name:   "items choose, rename and set modes",
			source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Items: []corev1.KeyToPath{{Key: "color", Path: "paint", Mode: &mode}}}},
			want:   map[string]string{"paint": "-rw------- red"},
		},
		{name: "a Secret with its default mode", source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys", DefaultMode: &mode}}, want: map[string]string{"token": "-rw------- s3cret"}},
		{name: "a missing Secret is named", source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none"}}, err: `volume "v": secret "none"`},
		{name: "a missing optional Secret is an empty volume", source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none", Optional: &yes}}, want: map[string]string{}},
		{name: "a missing key is named", source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Items: []corev1.KeyToPath{{Key: "taste", Path: "taste"}}}}, err: "taste"},
		{
			name: "a projection has everything in one folder",
			source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Items: []corev1.KeyToPath{{Key: "color", Path: "color"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
			}}},
			want: map[string]string{"token": "-rw-r--r-- token of seller", "color": "-rw-r--r-- red", "namespace": "-rw-r--r-- shop"},
		},
		{name: "labels through the downward API", source: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}, want: map[string]string{"labels": `-rw-r--r-- app="web"`}},
		{name: "an emptyDir", source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, want: map[string]string{}},
		{name: "an unsupported kind is refused", source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}, err: "not supported"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			set := &Set{Disk: filepath.Join(t.TempDir(), "disk"), Memory: filepath.Join(t.TempDir(), "memory"), Sources: known()}
			pod := podWith(volume("v", tc.source))
			err := set.Fill(pod)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("Fill answered %v, want an error with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, visible(t, set.path(&pod.Spec.Volumes[0]))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFillFollowsChangesInOneStep(t *testing.T) {
	known := &objects{configMaps: map[string]map[string]string{"settings": {"old": "1", "kept": "1"}}}
	set := &Set{Disk: filepath.Join(t.TempDir(), "disk"), Memory: filepath.Join(t.TempDir(), "memory"), Sources: known}
	pod := podWith(volume("v", corev1.VolumeSource{ConfigMap: configMap("settings")}))
	if err := set.Fill(pod); err != nil {
		t.Fatal(err)
	}
	dir := set.path(&pod.Spec.Volumes[0])
	before, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Fill(pod); err != nil {
		t.Fatal(err)
	}
	if same, _ := os.Readlink(filepath.Join(dir, "..data")); same != before {
		t.Error("an unchanged volume was written again")
	}
	known.configMaps["settings"] = map[string]string{"new": "2", "kept": "2"}
	if err := set.Fill(pod); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"new": "-rw-r--r-- 2", "kept": "-rw-r--r-- 2"}, visible(t, dir)); diff != "" {
		t.Errorf("files after the change (-want +got):\n%s", diff)
	}
}

func TestTokenIsBoundToThePod(t *testing.T) {
	known := &objects{}
	set := &Set{Disk: t.TempDir(), Memory: t.TempDir(), Sources: known}
	pod := podWith(volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "vault"}},
	}}}))
	if err := set.Fill(pod); err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.TokenRequestSpec{
		Audiences:      []string{"vault"},
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u-1"},
	}
	if diff := cmp.Diff(want, known.requests[0].Spec); diff != "" {
		t.Errorf("token request (-want +got):\n%s", diff)
	}
}

func TestMounts(t *testing.T) {
	set := &Set{Disk: t.TempDir(), Memory: t.TempDir(), Sources: &objects{configMaps: map[string]map[string]string{"settings": {"color": "red"}}}}
	pod := podWith(volume("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), volume("config", corev1.VolumeSource{ConfigMap: configMap("settings")}))
	if err := set.Fill(pod); err != nil {
		t.Fatal(err)
	}
	container := &corev1.Container{VolumeMounts: []corev1.VolumeMount{
		{Name: "data", MountPath: "/data"},
		{Name: "data", MountPath: "/mine", SubPathExpr: "$(NAME)"},
		{Name: "config", MountPath: "/config"},
	}}
	got, err := set.Mounts(pod, container, environment.Variables{"NAME": "web"})
	if err != nil {
		t.Fatal(err)
	}
	want := []entry.Mount{
		{Source: filepath.Join(set.Disk, "data"), Target: "/data"},
		{Source: filepath.Join(set.Disk, "data", "web"), Target: "/mine"},
		{Source: filepath.Join(set.Memory, "config"), Target: "/config", ReadOnly: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestSubPathDoesNotLeaveTheVolume(t *testing.T) {
	volume := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	if got, err := subPath(volume, "link"); err == nil {
		t.Errorf("a link out of the volume was followed to %s", got)
	}
}
