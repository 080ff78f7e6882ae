package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// demoTemplate is the Ingress library as the demo changes it, which is by a merge
// patch: kustomize knows no other for a custom resource.
func demoTemplate(t *testing.T) *v1alpha1.HAProxyTemplateConfig {
	t.Helper()
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	merged, err := jsonpatch.MergePatch(read(ingressTemplate), read(filepath.Join(demoManifests, "fleet/library.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	out := &v1alpha1.HAProxyTemplateConfig{}
	if err := json.Unmarshal(merged, out); err != nil {
		t.Fatal(err)
	}
	return out
}

const demoManifests = "../../../manifests/overlays/demo"

// TestDemoPassesHAProxy is what users meet first: its own Ingresses, with the
// Services and servers that a cluster would have for them.
func TestDemoPassesHAProxy(t *testing.T) {
	template := demoTemplate(t)
	text, err := os.ReadFile(filepath.Join(demoManifests, "web/ingresses.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	snapshot := readObjects(t, text, template)
	for _, ingress := range snapshot["ingresses"].Objects {
		ingress.SetNamespace("web") // which its kustomization does
	}
	for name, kind := range smallSnapshot(t) {
		if name != "certificates" {
			snapshot[name] = Kind{IndexBy: template.Spec.WatchedResources[name].IndexBy, Objects: kind.Objects}
		}
	}
	certificate, key := keyPair(t, "shop.example")
	kind := snapshot["certificates"]
	kind.Objects = append(kind.Objects, tlsSecret("web", "web-tls", certificate, key))
	snapshot["certificates"] = kind
	out, err := renderOnce(t, template, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n    http-request deny if { src 192.0.2.1 }\n", "\n    http-request deny if { src 198.51.100.0/24 }\n",
		"server srv-10-244-0-5 10.244.0.5:8000", "server srv-10-244-0-6 10.244.0.6:8000", "ssl crt ssl/web_web-tls.pem",
	} {
		if !strings.Contains(string(out.Configuration), want) {
			t.Errorf("the configuration lacks %q:\n%s", want, out.Configuration)
		}
	}
	checkWithHAProxy(t, out)
}
