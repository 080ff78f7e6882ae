package render

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// rendered is an output, or what went wrong, as one text.
func rendered(o *checkpoint.Output, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	text := o.Plan.ID + "\n" + string(o.Configuration)
	for _, a := range o.Artifacts {
		text += a.Path + "\n" + string(a.Content)
	}
	return text
}

// wantSame renders with what is remembered and without, and compares both, and the
// objects before and after.
func wantSame(t *testing.T, r *Renderer, snapshot Snapshot, what string) {
	t.Helper()
	before := make(map[*unstructured.Unstructured]*unstructured.Unstructured)
	for _, kind := range snapshot {
		for _, o := range kind.Objects {
			before[o] = o.DeepCopy()
		}
	}
	got := rendered(r.Render(t.Context(), snapshot))
	plain, err := r.render(t.Context(), snapshot, nil)
	if err != nil {
		err = snapshot.safe(err)
	}
	if diff := cmp.Diff(rendered(plain, err), got); diff != "" {
		t.Fatalf("%s (-plain +remembering):\n%s", what, diff)
	}
	for o, was := range before {
		if diff := cmp.Diff(was, o); diff != "" {
			t.Fatalf("%s: an object was changed (-before +after):\n%s", what, diff)
		}
	}
}

// pieces are what random snippets are made of. NEXT stands for another snippet.
var pieces = []string{
	`{{ range resources "maps" }}{{ .metadata.name }}={{ get .data "v" }};{{ end }}`,
	`{{ range lookup "maps" "edge" "a" }}{{ .metadata.name }}!{{ end }}`,
	`{{ with resource "maps" "edge" "m1" }}{{ toJson .data }}{{ end }}`,
	`{{ with resource "secrets" "edge" "s1" }}{{ get .data "v" }}{{ end }}`,
	`{{ http "doc" }}`,
	`{{ $d := dict "k" (list 1 "2" .n) }}{{ $_ := set $d "x" (dict "y" .n) }}{{ toJson $d }}`,
	`{{ include "NEXT" . }}`,
	`{{ include "NEXT" (dict "n" "fixed") }}`,
	`{{ range resources "maps" }}{{ include "NEXT" (dict "n" .metadata.name "o" .) }}{{ end }}`,
	`{{ $_ := set . "mark" (printf "%v+" (get . "mark")) }}{{ get . "mark" }}`,
	`{{ $_ := unset . "mark" }}`,
	`{{ range resources "maps" }}{{ $c := deepCopy .data }}{{ $_ := set $c "v" "copied" }}{{ toJson $c }}{{ toJson (set (omit .data "v") "w" 1) }}{{ end }}`,
	`{{ (shared "json").n }}{{ toJson (shared "json") }}`,
	`{{ $got := include "json" $ | fromJson }}{{ $_ := set $got "n" "changed" }}{{ toJson $got }}`,
}

// changers are pieces that change what others see; few, since one of them ends all
// remembering.
var changers = []string{
	`{{ with resource "maps" "edge" "m1" }}{{ $_ := set .data "v" "changed" }}{{ end }}`,
	`{{ $_ := set (shared "json") "n" "changed" }}`,
	`{{ $_ := merge . (dict "merged" (dict "n" .n)) }}{{ toJson .merged }}`,
	`{{ range resources "maps" }}{{ $_ := unset .metadata "labels" }}{{ end }}`,
	// The second merge goes into what the first one took over.
	`{{ range resources "maps" }}{{ $_ := merge (dict) . (dict "data" (dict "extra" "1")) }}{{ end }}`,
	`{{ range resources "maps" }}{{ $_ := mustMergeOverwrite (dict) . (dict "data" (dict "v" "2")) }}{{ end }}`,
}

// randomTemplate has snippets that use each other, sometimes in a circle.
func randomTemplate(random *rand.Rand) *v1alpha1.HAProxyTemplateConfig {
	const snippets = 5
	body := func(at int) string {
		var text strings.Builder
		for range 1 + random.IntN(3) {
			piece := pieces[random.IntN(len(pieces))]
			if random.IntN(40) == 0 {
				piece = changers[random.IntN(len(changers))]
			}
			next := at + 1 + random.IntN(2)
			if random.IntN(60) == 0 {
				next = random.IntN(snippets) // perhaps a circle
			}
			if next >= snippets && strings.Contains(piece, "NEXT") {
				piece = "end"
			}
			text.WriteString(strings.ReplaceAll(piece, "NEXT", fmt.Sprint("s", next)))
		}
		return text.String()
	}
	main := head + "  description {{ $top := dict \"n\" \"top\" }}" +
		`{{ include "s0" $top | sha256sum }}{{ include "s1" $top | sha256sum }}{{ toJson $top | sha256sum }}` + "\n"
	changes := []func(*v1alpha1.HAProxyTemplateConfigSpec){
		snippet("json", `{{ dict "n" (len (resources "maps")) "names" (list (http "doc")) | toJson }}`),
		mapFile("a.map", `{{ $top := dict "n" "map" }}x {{ include "s0" $top | sha256sum }}`+"\n"),
		func(s *v1alpha1.HAProxyTemplateConfigSpec) {
			s.WatchedResources = map[string]v1alpha1.WatchedResource{"maps": {}, "secrets": {}}
		},
	}
	for at := range snippets {
		changes = append(changes, snippet(fmt.Sprint("s", at), body(at)))
	}
	return templateOf(main, changes...)
}

// TestRememberingGivesTheSame renders random templates while their inputs change at
// random.
func TestRememberingGivesTheSame(t *testing.T) {
	t.Parallel()
	recalled, forgetful := 0, 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
		r, err := Compile(randomTemplate(random))
		if err != nil {
			t.Fatal(err)
		}
		snapshot := Snapshot{"maps": {IndexBy: []string{"metadata.namespace", "data.key"}}, "secrets": {}}
		put := func(kind, content, name string) {
			k := snapshot[kind]
			o := object(t, fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {namespace: edge, name: %s, labels: {a: b}}, data: {key: %q, v: %q}}",
				content, name, []string{"a", "b"}[random.IntN(2)], fmt.Sprint(random.IntN(3))))
			kept := k.Objects[:0:0]
			for _, other := range k.Objects {
				if other.GetName() != name {
					kept = append(kept, other)
				}
			}
			if random.IntN(5) > 0 {
				kept = append(kept, o)
			}
			k.Objects = kept
			snapshot[kind] = k
		}
		doc := "doc"
		for step := range 12 {
			switch random.IntN(6) {
			case 0:
				put("secrets", "Secret", "s1")
			case 1:
				doc = fmt.Sprint("doc", random.IntN(2))
			case 2:
				random.Shuffle(len(snapshot["maps"].Objects), func(a, b int) {
					o := snapshot["maps"].Objects
					o[a], o[b] = o[b], o[a]
				})
			default:
				put("maps", "ConfigMap", fmt.Sprint("m", random.IntN(3)))
			}
			wantSame(t, r.With(map[string]string{"doc": doc}), snapshot, fmt.Sprintf("seed %d, step %d", seed, step))
		}
		for _, e := range r.memory.texts {
			if e.checked > 1 && len(e.needs) > 0 {
				recalled++
			}
		}
		if r.memory.changes {
			forgetful++
		}
	}
	if recalled < 100 || forgetful < 20 {
		t.Errorf("only %d texts were remembered, and %d templates changed what others see", recalled, forgetful)
	}
}

// ingressRoutes are so many routes for the Ingress library.
func ingressRoutes(t *testing.T, count int) (*Renderer, Snapshot) {
	t.Helper()
	template := loadTemplate(t, ingressTemplate)
	r, err := Compile(template)
	if err != nil {
		t.Fatal(err)
	}
	return r, manyRoutes(count, template)
}

// TestAnotherIndexOfTheSameObjects: a template and what it watches change one after
// the other, so that the objects may be the same and what they are looked up by not.
func TestAnotherIndexOfTheSameObjects(t *testing.T) {
	r, err := Compile(templateOf(head+"  # {{ range lookup \"maps\" \"a\" }}{{ .metadata.name }}{{ end }}\n  # {{ include \"found\" . }}\n",
		snippet("found", `{{ range lookup "maps" "a" }}{{ .metadata.name }}{{ end }}`)))
	if err != nil {
		t.Fatal(err)
	}
	objects := []*unstructured.Unstructured{object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: edge, name: m}, data: {one: a, two: b}}")}
	for _, path := range []string{"data.two", "data.one", "data.two"} {
		wantSame(t, r, Snapshot{"maps": {IndexBy: []string{path}, Objects: objects}}, path)
	}
}

// TestOnlyWhatChangedIsRenderedAgain: all other texts stay.
func TestOnlyWhatChangedIsRenderedAgain(t *testing.T) {
	r, snapshot := ingressRoutes(t, 5)
	wantSame(t, r, snapshot, "at first")
	before := r.memory.texts
	endpoints := snapshot["endpoints"].Objects
	endpoints[2] = endpoints[2].DeepCopy()
	endpoints[2].Object["endpoints"] = []any{map[string]any{"addresses": []any{"10.9.9.9"}}}
	wantSame(t, r, snapshot, "an endpoint changed")
	if was, is := len(before), len(r.memory.texts); was != is {
		t.Errorf("%d texts were remembered, then %d", was, is)
	}
	var again []string
	for key, e := range r.memory.texts {
		if before[key] != e {
			again = append(again, e.text)
		}
	}
	if len(again) != 1 || !strings.Contains(again[0], "10.9.9.9") {
		t.Errorf("%d texts were made anew, want the servers of one backend:\n%s", len(again), strings.Join(again, "\n"))
	}
}

// TestSnippetsThatDoMoreThanPrint are rendered each time.
func TestSnippetsThatDoMoreThanPrint(t *testing.T) {
	certificate, key := keyPair(t, "x.example")
	r, err := Compile(templateOf(head+"{{ include \"cert\" . | trim | printf \"  # %s\" }}\n{{ include \"one\" (dict \"name\" \"b1\") }}\n",
		snippet("one", `{{ backend (dict "name" .name "servers" list) }}`),
		snippet("cert", "{{ certificate \"x.pem\" (printf \"%s\" .pem) }}"),
		extraContext(fmt.Sprintf(`{"pem": %q}`, string(certificate)+string(key)))))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		wantSame(t, r, Snapshot{}, "again")
	}
	out, err := r.Render(t.Context(), Snapshot{})
	if err != nil || len(out.Backends) != 1 || len(out.Artifacts) != 1 {
		t.Errorf("%s", rendered(out, err))
	}
}

func TestNothingOfASecretIsRemembered(t *testing.T) {
	r, err := Compile(templateOf(head+"{{ include \"outer\" . | len }}\n{{ (shared \"json\").v | len }}\n",
		snippet("outer", `{{ include "inner" . }}`),
		snippet("inner", `{{ with resource "secrets" "edge" "s" }}{{ .data.key }}{{ end }}`),
		snippet("json", `{{ dict "v" (include "inner" $) | toJson }}`),
		func(s *v1alpha1.HAProxyTemplateConfigSpec) {
			s.WatchedResources = map[string]v1alpha1.WatchedResource{"secrets": {}}
		}))
	if err != nil {
		t.Fatal(err)
	}
	secret := object(t, "{apiVersion: v1, kind: Secret, metadata: {namespace: edge, name: s}, data: {key: VERYSECRET}}")
	if _, err := r.Render(t.Context(), Snapshot{"secrets": {Objects: []*unstructured.Unstructured{secret}}}); err != nil {
		t.Fatal(err)
	}
	for _, e := range r.memory.texts {
		if bytes.Contains([]byte(e.text), []byte("VERYSECRET")) {
			t.Errorf("remembered %q", e.text)
		}
	}
}

func TestRendersAtTheSameTime(t *testing.T) {
	r, snapshot := ingressRoutes(t, 20)
	want := rendered(r.Render(t.Context(), snapshot))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if got := rendered(r.Render(t.Context(), snapshot)); got != want {
					t.Errorf("another output:\n%s", cmp.Diff(want, got))
				}
			}
		})
	}
	wg.Wait()
}
