package render

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const templatingDoc = "../../../docs/templating.md"

// docHead stands above every example's template.
const docHead = "global\n    default-path config\n"

// docBlock is a fenced block of the page; its kind is the info string.
type docBlock struct {
	kind, text string
	line       int
}

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func docBlocks(t *testing.T) (out []docBlock) {
	t.Helper()
	raw, err := os.ReadFile(templatingDoc)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range fence.FindAllSubmatchIndex(raw, -1) {
		out = append(out, docBlock{
			kind: string(raw[at[2]:at[3]]), text: string(raw[at[4]:at[5]]), line: 1 + strings.Count(string(raw[:at[0]]), "\n"),
		})
	}
	return out
}

// docExample is what blocks of the page say together: inputs, then results.
type docExample struct {
	line    int
	spec    v1alpha1.HAProxyTemplateConfigSpec
	objects []byte
	http    map[string]string
	results []docBlock
}

func (e *docExample) take(t *testing.T, b docBlock) {
	t.Helper()
	kind, name, _ := strings.Cut(b.kind, " ")
	switch {
	case b.kind == "yaml spec":
		if err := yaml.UnmarshalStrict([]byte(b.text), &e.spec); err != nil {
			t.Fatalf("line %d: %v", b.line, err)
		}
	case b.kind == "yaml objects":
		e.objects = []byte(b.text)
	case b.kind == "gotemplate":
		e.spec.HAProxyConfig.Template = docHead + b.text
	case kind == "text" && strings.HasPrefix(name, "http "):
		e.http[strings.TrimPrefix(name, "http ")] = b.text
	case kind == "haproxy" || kind == "error" || kind == "text":
		e.results = append(e.results, b)
	}
}

// docExamples reads the page: an input after a result begins another example.
func docExamples(t *testing.T) (out []*docExample) {
	t.Helper()
	var now *docExample
	for _, b := range docBlocks(t) {
		if b.kind == "" || b.kind == "functions" {
			continue
		}
		isResult := b.kind == "haproxy" || b.kind == "error" || strings.HasPrefix(b.kind, "text ") && !strings.HasPrefix(b.kind, "text http ")
		if now == nil || !isResult && len(now.results) > 0 {
			now = &docExample{line: b.line, http: map[string]string{}}
			out = append(out, now)
		}
		now.take(t, b)
	}
	return out
}

func (e *docExample) check(t *testing.T) {
	t.Helper()
	template := templateOf(e.spec.HAProxyConfig.Template)
	template.Spec = e.spec
	got := map[string]string{}
	r, err := Compile(template)
	if err == nil {
		for name := range e.spec.HTTPResources {
			if _, ok := e.http[name]; !ok {
				t.Errorf("the document %q has no text", name)
			}
		}
		out, renderErr := r.With(e.http).Render(t.Context(), readObjects(t, e.objects, template))
		err = renderErr
		if err == nil {
			got["haproxy"] = strings.TrimPrefix(string(out.Configuration), docHead)
			for _, a := range out.Artifacts {
				got["text "+a.RuntimePath] = string(a.Content)
			}
		}
	}
	if err != nil {
		got["error"] = err.Error() + "\n"
	}
	want := map[string]string{}
	for _, b := range e.results {
		want[b.kind] = b.text
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the page says otherwise (-page +rendered):\n%s", diff)
	}
}

func TestExamplesOfTheDocumentationRenderAsWritten(t *testing.T) {
	examples := docExamples(t)
	if len(examples) < 8 {
		t.Errorf("only %d examples were found", len(examples))
	}
	for _, e := range examples {
		t.Run(fmt.Sprintf("line %d", e.line), func(t *testing.T) { e.check(t) })
	}
}

func TestTheDocumentationNamesEveryFunction(t *testing.T) {
	raw, err := os.ReadFile(templatingDoc)
	if err != nil {
		t.Fatal(err)
	}
	fixed := fixedFunctions()
	for name := range (&run{}).functions() {
		if fixed[name] == nil && name != enterFunction && name != leaveFunction && !regexp.MustCompile("`"+name+"[` ]").Match(raw) {
			t.Errorf("the function %s is not described", name)
		}
	}
	var listed string
	for _, b := range docBlocks(t) {
		if b.kind == "functions" {
			listed = cmp.Or(listed, b.text)
		}
	}
	want := slices.Sorted(maps.Keys(fixedFunctions()))
	if diff := gocmp.Diff(want, strings.Fields(listed)); diff != "" {
		t.Errorf("listed functions (-there +listed):\n%s", diff)
	}
}
