package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// foreign are kinds of a component that is not part of the development cluster.
var foreign = regexp.MustCompile(`(?m)^apiVersion: cert-manager\.io/`)

// build is what an overlay comes to, object by object.
func build(t *testing.T, folder string) []string {
	t.Helper()
	return strings.Split(kube(t, "kustomize", folder), "\n---\n")
}

// checkKeys wants an authority to keep its key when it is renewed, since its two
// certificates are not trusted everywhere at the same moment, and all others not to.
func checkKeys(t *testing.T, objects []string) {
	t.Helper()
	for _, object := range objects {
		var certificate struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				IsCA       bool
				PrivateKey struct{ RotationPolicy string }
			}
		}
		if err := yaml.Unmarshal([]byte(object), &certificate); err != nil {
			t.Fatal(err)
		}
		want := "Always"
		if certificate.Spec.IsCA {
			want = "Never"
		}
		if got := certificate.Spec.PrivateKey.RotationPolicy; certificate.Kind == "Certificate" && got != want {
			t.Errorf("certificate %s: the rotation policy of its key is %q, want %q", certificate.Metadata.Name, got, want)
		}
	}
}

// TestOverlaysAreAccepted: the real API server takes every object of every
// overlay that can be installed.
func TestOverlaysAreAccepted(t *testing.T) {
	for _, overlay := range []string{"audit-only", "full", "demo"} {
		t.Run(overlay, func(t *testing.T) {
			objects := build(t, filepath.Join("../../manifests/overlays", overlay))
			known := slices.DeleteFunc(slices.Clone(objects), foreign.MatchString)
			if overlay != "demo" && len(known) == len(objects) {
				t.Error("nothing issues certificates")
			}
			checkKeys(t, slices.DeleteFunc(objects, func(o string) bool { return !foreign.MatchString(o) }))
			if overlay == "audit-only" {
				kube(t, "create", "namespace", "haptic")
				defer kube(t, "delete", "namespace", "haptic", "--wait=false")
			}
			file := filepath.Join(t.TempDir(), "overlay.yaml")
			if err := os.WriteFile(file, []byte(strings.Join(known, "\n---\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			out := kube(t, "apply", "--server-side", "--dry-run=server", "--field-manager=it", "--force-conflicts", "-f", file)
			if got := strings.Count(out, "serverside-applied"); got != len(known) {
				t.Errorf("%d of %d objects were accepted:\n%s", got, len(known), out)
			}
		})
	}
}

// TestAuditOnlyReadsAlone: beside an installation of HAPTIC nothing is granted
// that could change it, and without Secrets nothing that could read one.
func TestAuditOnlyReadsAlone(t *testing.T) {
	without := kustomized(t, []string{"overlays/audit-only"}, []string{"components/without-secrets"})
	for folder, secrets := range map[string]bool{"../../manifests/overlays/audit-only": true, without: false} {
		objects := build(t, folder)
		reads := false
		for _, object := range objects {
			var role rbacv1.Role
			if err := yaml.Unmarshal([]byte(object), &role); err != nil {
				t.Fatal(err)
			}
			if role.Kind != "Role" && role.Kind != "ClusterRole" {
				continue
			}
			for _, rule := range role.Rules {
				for _, verb := range rule.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) {
						t.Errorf("%s %s grants %q on %v", role.Kind, role.Name, verb, rule.Resources)
					}
				}
				reads = reads || slices.Contains(rule.Resources, "secrets")
			}
		}
		if told := strings.Contains(strings.Join(objects, "\n"), "--without-secrets"); reads != secrets || told == secrets {
			t.Errorf("%s: reads Secrets %t, is told to go without %t", folder, reads, told)
		}
	}
}
