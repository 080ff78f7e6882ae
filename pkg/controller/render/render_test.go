package render

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

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
	return r.Render(t.Context(), snapshot)
}

func TestDemoRendersAsStored(t *testing.T) {
	out, err := renderOnce(t, loadTemplate(t, "testdata/demo.yaml"), demoSnapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"haproxy.cfg": out.Configuration}
	for _, a := range out.Artifacts {
		files[a.RuntimePath] = a.Content
	}
	for name, content := range files {
		golden := filepath.Join("testdata", "demo", name)
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
	r, err := Compile(loadTemplate(t, "testdata/demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.Render(t.Context(), demoSnapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		snapshot := demoSnapshot(t)
		for _, kind := range snapshot {
			rand.Shuffle(len(kind.Objects), func(a, b int) { kind.Objects[a], kind.Objects[b] = kind.Objects[b], kind.Objects[a] })
		}
		// Another Renderer too, so that nothing hides in its maps.
		if r, err = Compile(loadTemplate(t, "testdata/demo.yaml")); err != nil {
			t.Fatal(err)
		}
		again, err := r.Render(t.Context(), snapshot)
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
	out, err := renderOnce(t, loadTemplate(t, "testdata/demo.yaml"), demoSnapshot(t))
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

func TestDemoPassesHAProxy(t *testing.T) {
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("needs the haproxy binary")
	}
	out, err := renderOnce(t, loadTemplate(t, "testdata/demo.yaml"), demoSnapshot(t))
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
		t.Errorf("haproxy refuses the demo: %v\n%s", err, answer)
	}
}

func TestRenderRefuses(t *testing.T) {
	ingress := object(t, "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: broken, namespace: shop}, spec: {rules: []}}")
	secret := object(t, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {password: c3VwZXJzZWNyZXQtcGFzc3dvcmQ=}}")
	snapshot := Snapshot{
		"ingresses": {Objects: []*unstructured.Unstructured{ingress}},
		"secrets":   {Objects: []*unstructured.Unstructured{secret}},
	}
	backend := `{{ backend (dict "name" "b" "servers" (list (dict "name" "s" "address" "10.0.0.1" "port" 80))) }}`
	tests := []struct {
		name     string
		template *v1alpha1.HAProxyTemplateConfig
		want     Error
		message  string
	}{
		{
			name:     "a syntax error, with its line",
			template: templateOf(head + "{{ if }}\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig", Line: 3},
			message:  "missing value for if",
		},
		{
			name:     "a function that is not pure",
			template: templateOf(head + "{{ now }}\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig", Line: 3},
			message:  `function "now" not defined`,
		},
		{
			name:     "a missing key of a watched object, which it names",
			template: templateOf(head + "{{ range resources \"ingresses\" }}\n{{ .spec.tls }}\n{{ end }}"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: ".spec.tls", Object: "Ingress shop/broken"},
			message:  `map has no entry for key "tls"`,
		},
		{
			name:     "a missing key after the loop, which names no object",
			template: templateOf(head + "{{ range resources \"ingresses\" }}{{ end }}\n{{ .absent }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: ".absent"},
			message:  `map has no entry for key "absent"`,
		},
		{
			name:     "a failure in a snippet, at the snippet's own line",
			template: templateOf(head+"{{ include \"inner\" . }}\n", snippet("inner", "\n\n{{ .absent }}")),
			want:     Error{Reason: ReasonRenderFailed, Template: "inner", Line: 3, Value: ".absent"},
			message:  `map has no entry for key "absent"`,
		},
		{
			name:     "a snippet that includes itself",
			template: templateOf(head+"{{ include \"loop\" . }}\n", snippet("loop", `{{ include "loop" . }}`)),
			want:     Error{Reason: ReasonRenderFailed, Template: "loop", Line: 1, Value: `include "loop" .`},
			message:  "error calling include: includes are nested deeper than 64",
		},
		{
			name:     "a resource that is not declared",
			template: templateOf(head + "{{ range resources \"gateways\" }}{{ end }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `resources "gateways"`},
			message:  `error calling resources: watched resource "gateways" is not declared in watchedResources`,
		},
		{
			name:     "a map that is not declared",
			template: templateOf(head + "# {{ mapPath \"hosts.map\" }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `mapPath "hosts.map"`},
			message:  `error calling mapPath: "hosts.map" is not declared in the template object`,
		},
		{
			name:     "a configuration without default-path",
			template: templateOf("global\n  maxconn 10\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig"},
			message:  "the global section lacks: default-path config. Without it, relative paths are not those of the output",
		},
		{
			name:     "another default-path",
			template: templateOf("global\n  default-path origin /etc\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 2, Value: "default-path origin /etc"},
			message:  "rendered line 2: must be: default-path config",
		},
		{
			name:     "an absolute path of a managed file, at the template's line",
			template: templateOf(head+"{{ range until 3 }}\n# {{ . }}\n{{- end }}\nfrontend f\n  use_backend %[hdr(host),map(/etc/haproxy/maps/hosts.map)]\n", mapFile("hosts.map", "x")),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 7, Value: "/etc/haproxy/maps/hosts.map"},
			message:  "rendered line 8: a managed file must be named by mapPath, filePath or certPath, not by an absolute path",
		},
		{
			name:     "a path into the agent's folder, from a snippet",
			template: templateOf(head+"{{ include \"log\" . }}\n", snippet("log", "# fine\n  stats socket /var/lib/holdfast/run/x.sock")),
			want:     Error{Reason: ReasonRenderFailed, Template: "log", Line: 2, Value: "/var/lib/holdfast/run/x.sock"},
			message:  "rendered line 4: a managed file must be named by mapPath, filePath or certPath, not by an absolute path",
		},
		{
			name:     "an environment name outside the list",
			template: templateOf(head + "frontend f\n  bind \"${HOST_IP}:80\"\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: "HOST_IP"},
			message:  "rendered line 4: environment name HOST_IP is not one of POD_IP, POD_NAME, POD_NAMESPACE, POD_UID",
		},
		{
			name:     "an environment name read by a sample",
			template: templateOf(head + "frontend f\n  http-request set-header x %[env(SECRET)]\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: "SECRET"},
			message:  "rendered line 4: environment name SECRET is not one of POD_IP, POD_NAME, POD_NAMESPACE, POD_UID",
		},
		{
			name:     "a changed environment",
			template: templateOf(head + "  setenv POD_IP 1.2.3.4\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: "setenv"},
			message:  "rendered line 3: the environment is the pod's, a configuration must not change it",
		},
		{
			name:     "a null value in a map",
			template: templateOf(head, mapFile("m.map", "a b\nc {{ .nothing }}\n"), extraContext(`{"nothing":null}`)),
			want:     Error{Reason: ReasonRenderFailed, Template: "maps/m.map", Line: 2, Output: true},
			message:  "a value is null",
		},
		{
			name:     "a control character",
			template: templateOf(head + "{{ \"a\\x04b\" }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3},
			message:  "rendered line 3: the line holds a control character",
		},
		{
			name:     "base64 that is none",
			template: templateOf(head + "{{ b64dec \"%%%\" }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `b64dec "%%%"`},
			message:  "error calling b64dec: illegal base64 data at input byte 0",
		},
		{
			name:     "a snippet with the name of a file",
			template: templateOf(head, mapFile("m.map", "x"), snippet("maps/m.map", "y")),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "maps/m.map"},
			message:  "the snippet has the name of a file",
		},
		{
			name:     "a definition that would replace a template",
			template: templateOf(head+`{{ define "s" }}x{{ end }}`, snippet("s", "y")),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `define "s" would replace the template of that name`,
		},
		{
			name:     "a file name that is a path",
			template: templateOf(head, mapFile("a/b.map", "x")),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "maps/a/b.map"},
			message:  `file name "a/b.map" may hold letters, digits and . _ - + = @ only`,
		},
		{
			name:     "a backend that is made twice",
			template: templateOf(head + backend + "\n" + backend + "\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: `backend (dict "name" "b" "servers" (list (dict "name" "s" "address" "10.0.0.1" "port" 80)))`},
			message:  `error calling backend: backend "b" is made twice`,
		},
		{
			name:     "a backend that is not printed",
			template: templateOf(head + `{{ $x := backend (dict "name" "b") }}`),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `backend "b" is not printed on a line of its own`,
		},
		{
			name:     "a backend in the middle of a line",
			template: templateOf(head + `x {{ backend (dict "name" "b") }}` + "\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `backend "b" is not printed on a line of its own`,
		},
		{
			name:     "a line after a backend that would silently belong to it",
			template: templateOf(head + backend + "\n  http-request deny\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `the line "http-request deny" after backend "b" starts no section; use options`,
		},
		{
			name:     "a backend in a map",
			template: templateOf(head, mapFile("m.map", backend)),
			want:     Error{Reason: ReasonRenderFailed, Template: "maps/m.map", Line: 1, Value: `backend (dict "name" "b" "servers" (list (dict "name" "s" "address" "10.0.0.1" "port" 80)))`},
			message:  "error calling backend: backend belongs into haproxyConfig",
		},
		{
			name:     "a Secret's value in the author's own error text",
			template: templateOf(head + `{{ range resources "secrets" }}{{ fail (printf "bad %s" (b64dec .data.password)) }}{{ end }}`),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `fail (printf "bad %s" (b64dec .data.password))`, Object: "Secret shop/s"},
			message:  "error calling fail: bad [redacted]",
		},
		{
			name:     "an endless list",
			template: templateOf(head + "{{ range until 2000000000 }}{{ end }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: "until 2000000000"},
			message:  "error calling until: a list of 2000000000 numbers exceeds the limit of 1048576",
		},
		{
			name:     "an output without end",
			template: templateOf(head + "{{ range until 1000 }}# {{ repeat 30000 \"x\" }}\n{{ end }}"),
			want:     Error{Reason: ReasonTooLarge, Template: "haproxyConfig"},
			message:  "the output exceeds the limit of 16777216 bytes",
		},
		{
			name: "a broken index",
			template: templateOf(head, func(s *v1alpha1.HAProxyTemplateConfigSpec) {
				s.WatchedResources = map[string]v1alpha1.WatchedResource{"x": {IndexBy: []string{"a["}}}
			}),
			want:    Error{Reason: ReasonTemplateInvalid},
			message: `watched resource "x": indexBy "a[": unterminated array`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := renderOnce(t, tc.template, snapshot)
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("Render() error = %v, want an *Error", err)
			}
			if diff := cmp.Diff(&tc.want, got, cmpopts.IgnoreFields(Error{}, "Err")); diff != "" {
				t.Errorf("Render() error (-want +got):\n%s\n%v", diff, got)
			}
			if diff := cmp.Diff(tc.message, got.Err.Error()); diff != "" {
				t.Errorf("Render() message (-want +got):\n%s", diff)
			}
		})
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
