package render

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// smallTemplate has a little of everything.
const smallTemplate = "testdata/small/template.yaml"

var update = flag.Bool("update", false, "rewrite golden files")

// templateOf makes a template object around a configuration.
func templateOf(configuration string, change ...func(*v1alpha1.HAProxyTemplateConfigSpec)) *v1alpha1.HAProxyTemplateConfig {
	t := &v1alpha1.HAProxyTemplateConfig{}
	t.Name, t.Namespace = "edge", "edge"
	t.Spec.HAProxyConfig.Template = configuration
	for _, c := range change {
		c(&t.Spec)
	}
	return t
}

func snippet(name, text string) func(*v1alpha1.HAProxyTemplateConfigSpec) {
	return func(s *v1alpha1.HAProxyTemplateConfigSpec) { put(&s.TemplateSnippets, name, text) }
}

func mapFile(name, text string) func(*v1alpha1.HAProxyTemplateConfigSpec) {
	return func(s *v1alpha1.HAProxyTemplateConfigSpec) { put(&s.Maps, name, text) }
}

func put(m *map[string]v1alpha1.Template, name, text string) {
	if *m == nil {
		*m = map[string]v1alpha1.Template{}
	}
	(*m)[name] = v1alpha1.Template{Template: text}
}

func extraContext(raw string) func(*v1alpha1.HAProxyTemplateConfigSpec) {
	return func(s *v1alpha1.HAProxyTemplateConfigSpec) {
		s.TemplatingSettings.ExtraContext = &runtime.RawExtension{Raw: []byte(raw)}
	}
}

const head = "global\n  default-path config\n"

func renderOnce(t *testing.T, template *v1alpha1.HAProxyTemplateConfig, snapshot Snapshot) (*checkpoint.Output, error) {
	t.Helper()
	r, err := Compile(template)
	if err != nil {
		return nil, err
	}
	if len(template.Spec.HTTPResources) > 0 {
		r = r.With(smallDocuments)
	}
	return r.Render(t.Context(), snapshot)
}

func TestASmallTemplateRendersAsStored(t *testing.T) {
	out, err := renderOnce(t, loadTemplate(t, smallTemplate), smallSnapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"haproxy.cfg": out.Configuration}
	for _, a := range out.Artifacts {
		files[a.RuntimePath] = a.Content
	}
	checkStored(t, "small", files)
}

// checkStored compares rendered files with those stored for a template.
func checkStored(t *testing.T, template string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		golden := filepath.Join("testdata", template, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(content)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEqualInputsInAnyOrderGiveEqualBytes(t *testing.T) {
	r, err := Compile(loadTemplate(t, smallTemplate))
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.With(smallDocuments).Render(t.Context(), smallSnapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		snapshot := smallSnapshot(t)
		for _, kind := range snapshot {
			rand.Shuffle(len(kind.Objects), func(a, b int) { kind.Objects[a], kind.Objects[b] = kind.Objects[b], kind.Objects[a] })
		}
		// Another Renderer too, so that nothing hides in its maps.
		if r, err = Compile(loadTemplate(t, smallTemplate)); err != nil {
			t.Fatal(err)
		}
		again, err := r.With(smallDocuments).Render(t.Context(), snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("render %d differs (-first +again):\n%s", i, diff)
		}
	}
}

// TestSectionsTileTheConfiguration recomputes what a reader of a checkpoint
// checks, with nothing of the code under test.
func TestSectionsTileTheConfiguration(t *testing.T) {
	out, err := renderOnce(t, loadTemplate(t, smallTemplate), smallSnapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	rest := out.Configuration
	backends := 0
	for i, section := range out.Plan.Sections {
		if section.Length > int64(len(rest)) {
			t.Fatalf("section %d has %d bytes, %d are left", i, section.Length, len(rest))
		}
		text := rest[:section.Length]
		rest = rest[section.Length:]
		if got := plan.Digest(text); got != section.TextDigest {
			t.Errorf("section %d hashes to %s, declared is %s", i, got, section.TextDigest)
		}
		if section.Kind == plan.SectionBackend {
			backends++
			record := out.Plan.Backends[section.Name]
			if record.TextDigest != section.TextDigest || !strings.HasPrefix(string(text), "backend "+section.Name+"\n") {
				t.Errorf("section %d is not the text of backend %s", i, section.Name)
			}
		}
	}
	if len(rest) > 0 {
		t.Errorf("%d bytes belong to no section", len(rest))
	}
	if backends != 2 || len(out.Plan.Backends) != 2 || len(out.Backends) != 2 {
		t.Errorf("got %d backend sections, %d records, %d texts, want 2 of each", backends, len(out.Plan.Backends), len(out.Backends))
	}
	id, err := out.Plan.ComputeID()
	if err != nil || id != out.Plan.ID {
		t.Errorf("plan is named %s, its digest is %s (%v)", out.Plan.ID, id, err)
	}
	if _, err := checkpoint.EncodePayload(out); err != nil {
		t.Errorf("a checkpoint of it cannot be encoded: %v", err)
	}
}

func TestASmallTemplatePassesHAProxy(t *testing.T) {
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("needs the haproxy binary")
	}
	out, err := renderOnce(t, loadTemplate(t, smallTemplate), smallSnapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(path string, content []byte) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range out.Artifacts {
		if a.Family != checkpoint.Certificate {
			write(a.RuntimePath, a.Content)
		}
	}
	// The fixture's certificate is no certificate, so that no key is stored.
	configuration := strings.ReplaceAll(string(out.Configuration), " ssl crt ssl/web.pem", "")
	write("haproxy.cfg", []byte(configuration))
	cmd := exec.Command(binary, "-c", "-dr", "-f", "haproxy.cfg")
	cmd.Dir, cmd.Env = dir, []string{"POD_IP=127.0.0.1"}
	if answer, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("haproxy refuses it: %v\n%s", err, answer)
	}
}

func TestRenderEndsWithItsContext(t *testing.T) {
	r, err := Compile(templateOf(head + "{{ range until 1000000 }}{{ end }}"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Render(ctx, nil); err == nil {
		t.Error("Render() went on after its context had ended")
	}
}

func TestATemplateCannotChangeWhatTheNextRenderSees(t *testing.T) {
	objects := []*unstructured.Unstructured{object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n}, data: {k: v}}")}
	r, err := Compile(templateOf(head+"{{ range resources \"c\" }}{{ $_ := set .data \"k\" (printf \"%sx\" .data.k) }}# {{ .data.k }}\n{{ end }}{{ $_ := set . \"n\" (add1 .n) }}# {{ .n }}\n", extraContext(`{"n":1}`)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := r.Render(t.Context(), Snapshot{"c": {Objects: objects}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(head+"# vx\n# 2\n", string(out.Configuration)); diff != "" {
			t.Fatalf("Render() (-want +got):\n%s", diff)
		}
	}
}

func TestSharedValuesAreMadeOnceAndStayAsTheyWereMade(t *testing.T) {
	template := templateOf(head+`{{ $v := shared "v" }}{{ $_ := set $v "a" "changed" }}# {{ $v.a }} {{ (shared "v").a }}`+"\n",
		snippet("v", `{{ $_ := set . "n" (add1 .n) }}{{ dict "a" (printf "made %d" .n) | toJson }}`),
		mapFile("m.map", `{{ (shared "v").a }} {{ .n }}`), extraContext(`{"n":1}`))
	for range 2 {
		out, err := renderOnce(t, template, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{string(out.Configuration), string(out.Artifacts[0].Content)}
		if diff := cmp.Diff([]string{head + "# changed made 2\n", "made 2 1"}, got); diff != "" {
			t.Errorf("Render() (-want +got):\n%s", diff)
		}
	}
}

func TestLookupFindsByLeadingIndexValues(t *testing.T) {
	slice := func(name, service, zone string) *unstructured.Unstructured {
		return object(t, "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: "+name+", namespace: n, labels: {svc: "+service+"}}, zones: ["+zone+"]}")
	}
	snapshot := Snapshot{"slices": {
		IndexBy: []string{"metadata.labels.svc", "{.zones[*]}"},
		Objects: []*unstructured.Unstructured{slice("c", "web", "west"), slice("a", "web", "east, west"), slice("b", "api", "east")},
	}}
	r, err := Compile(templateOf(head + `# {{ range lookup "slices" "web" }}{{ .metadata.name }} {{ end }}` +
		`| {{ range lookup "slices" "web" "east" }}{{ .metadata.name }} {{ end }}` +
		`| {{ len (lookup "slices" "none") }} {{ with resource "slices" "n" "zz" }}found{{ else }}nil{{ end }}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Render(t.Context(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(head+"# a c | a | 0 nil\n", string(out.Configuration)); diff != "" {
		t.Errorf("Render() (-want +got):\n%s", diff)
	}
}
