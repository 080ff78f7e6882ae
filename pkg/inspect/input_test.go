package inspect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestEveryFormOfAnExportIsRead expects the same sound report of all of them.
func TestEveryFormOfAnExportIsRead(t *testing.T) {
	e := newExport(t)
	objects := e.stored()
	each := func(write func(o runtime.Object) []byte, before string) []byte {
		var all bytes.Buffer
		for _, o := range objects {
			all.WriteString(before)
			all.Write(write(o))
		}
		return all.Bytes()
	}
	asYAML := func(o runtime.Object) []byte { return marshalYAML(t, o) }
	asJSON := func(o runtime.Object) []byte { return marshalJSON(t, o) }
	list := map[string]any{"kind": "List", "apiVersion": "v1", "items": objects}
	tests := []struct {
		name  string
		input []byte
	}{
		{name: "a List in YAML", input: e.yaml(t)},
		{name: "a List in JSON", input: marshalJSON(t, list)},
		{name: "typed Lists in YAML whose items have no type", input: typedLists(t, objects)},
		{name: "a List of Lists", input: marshalJSON(t, map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{list}})},
		{name: "many YAML documents", input: each(asYAML, "---\n")},
		{name: "many YAML documents with comments and directives", input: each(asYAML, "...\n# a comment\n%YAML 1.2\n--- # another\n")},
		{name: "many YAML documents with carriage returns", input: bytes.ReplaceAll(each(asYAML, "---\n"), []byte("\n"), []byte("\r\n"))},
		{name: "many JSON documents", input: each(asJSON, "\n")},
		{name: "JSON and YAML documents between marks", input: append(each(asJSON, "\n---\n"), each(asYAML, "\n---\n")...)},
		{name: "every object twice", input: append(each(asYAML, "---\n"), each(asYAML, "---\n")...)},
		{name: "a byte order mark before JSON", input: append([]byte("\xef\xbb\xbf"), marshalJSON(t, list)...)},
		{name: "a byte order mark before YAML", input: append([]byte("\xef\xbb\xbf"), e.yaml(t)...)},
		{name: "YAML in flow style", input: append([]byte("# flow\n"), marshalJSON(t, list)...)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			report := mustVerify(t, tc.input)
			if len(report.Checkpoints) != 2 || len(report.Intents) != 1 || report.Outcome() != Sound {
				t.Errorf("%d checkpoints, %d intents, outcome %d, findings %v",
					len(report.Checkpoints), len(report.Intents), report.Outcome(), said(report))
			}
		})
	}
}

// typedLists writes one List per kind, as lists of built-in kinds look.
func typedLists(t *testing.T, objects []runtime.Object) []byte {
	t.Helper()
	lists := map[string][]any{}
	for _, o := range objects {
		item := decoded(t, marshalJSON(t, o)).(map[string]any)
		kind := fmt.Sprintf("apiVersion: %s\nkind: %sList\n", item["apiVersion"], item["kind"])
		delete(item, "apiVersion")
		delete(item, "kind")
		lists[kind] = append(lists[kind], item)
	}
	var all bytes.Buffer
	for kind, items := range lists {
		all.WriteString("---\n" + kind)
		all.Write(marshalYAML(t, map[string]any{"items": items}))
	}
	return all.Bytes()
}

func TestFoldersAreReadWithAllBelow(t *testing.T) {
	e, dir := newExport(t), t.TempDir()
	for i, o := range e.stored() {
		name := filepath.Join(dir, o.GetObjectKind().GroupVersionKind().Kind, fmt.Sprint(i)+extensions[i%len(extensions)])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		raw := marshalYAML(t, o)
		if filepath.Ext(name) == ".json" {
			raw = marshalJSON(t, o)
		}
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("not: [an object"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		inv, err := (&Files{Paths: []string{path}}).Read()
		if err != nil {
			t.Fatal(err)
		}
		report, err := Verify(inv)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Checkpoints) != 2 || report.Outcome() != Sound {
			t.Errorf("%s: %d checkpoints, outcome %d", path, len(report.Checkpoints), report.Outcome())
		}
	}
}

func TestNamespacesOfFiles(t *testing.T) {
	e := newExport(t)
	for _, o := range e.stored() {
		o.(metav1.Object).SetNamespace("")
	}
	input := e.yaml(t)
	tests := []struct {
		name, namespace string
		input           []byte
		checkpoints     int
	}{
		{name: "objects without one belong to the one that is given", namespace: namespace, input: input, checkpoints: 2},
		{name: "objects of others are left out", namespace: "other", input: newExport(t).yaml(t), checkpoints: 0},
		{name: "objects of the one that is given are read", namespace: namespace, input: newExport(t).yaml(t), checkpoints: 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inv, err := (&Files{Paths: []string{"-"}, Stdin: bytes.NewReader(tc.input), Namespace: tc.namespace}).Read()
			if err != nil {
				t.Fatal(err)
			}
			report, err := Verify(inv)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(report.Checkpoints); got != tc.checkpoints {
				t.Errorf("%d checkpoints, want %d", got, tc.checkpoints)
			}
		})
	}
	if _, err := verifyBytes(input); err == nil || !strings.Contains(err.Error(), "has no namespace") {
		t.Errorf("without any namespace: error %v", err)
	}
}

func TestInputThatIsRefused(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: n, namespace: edge}\n"
	const cfg = "apiVersion: haproxy-haptic.org/v1alpha1\nkind: HAProxyCfg\nmetadata: {name: n, namespace: edge}\n"
	utf16Text := []byte("\xff\xfe")
	for _, unit := range utf16.Encode([]rune(cfg)) {
		utf16Text = append(utf16Text, byte(unit), byte(unit>>8))
	}
	tests := []struct {
		name, input, want string
	}{
		{name: "no YAML", input: "a: [", want: "standard input is not readable: yaml: line 1"},
		{name: "truncated JSON", input: `{"apiVersion":"v1","items":[`, want: "standard input is not readable: it ends in the middle"},
		{name: "JSON with an error", input: `{"apiVersion":never-shown}`, want: "no JSON at byte 16"},
		{name: "a text", input: "never-shown", want: "something that is no object: it is a string"},
		{name: "no kind", input: "apiVersion: v1\n", want: "without apiVersion or kind"},
		{name: "a List whose items are none", input: "apiVersion: v1\nkind: List\nitems: {a: b}\n", want: "items of a List are no list"},
		{name: "an item that is no object", input: "apiVersion: v1\nkind: List\nitems: [never-shown]\n", want: "no object: it is a string"},
		{name: "Lists in Lists in Lists", input: strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 9) + strings.Repeat("]}", 9), want: "nested more than 4 deep"},
		{name: "an alias", input: "a: &never-shown b\nc: *never-shown\n", want: "anchors and aliases are not read"},
		{name: "an unknown alias", input: "c: *never-shown\n", want: "unknown anchor"},
		{name: "deep nesting", input: strings.Repeat("[", 200) + strings.Repeat("]", 200), want: "nested more than 100 deep"},
		{name: "a key that is a list", input: "? [a]\n: b\n", want: "a key is not a text"},
		{name: "UTF-16", input: string(utf16Text), want: "UTF-16"},
		{name: "a member of another type", input: cfg + "spec: {content: 12345}\n", want: "member spec.content is a number"},
		{name: "data that is not base64", input: secret + "data: {certificate: never-shown}\n", want: "a member is not base64"},
		{name: "a member twice", input: cfg + "spec: {content: a, content: never-shown}\n", want: `duplicate field "spec.content"`},
		{name: "no name", input: "apiVersion: v1\nkind: Secret\nmetadata: {namespace: edge}\n", want: "no usable metadata.name"},
		{name: "a name with controls", input: "apiVersion: v1\nkind: Secret\nmetadata: {name: \"a\\e[2J\", namespace: edge}\n", want: "no usable metadata.name"},
		{name: "the second document", input: cfg + "---\n" + cfg + "spec: []\n", want: "standard input, document 2: a HAProxyCfg is not readable: member spec is a array"},
		{
			name: "an object in two versions", input: cfg + "---\n" + cfg + "spec: {content: never-shown}\n",
			want: "HAProxyCfg/n in namespace edge is given twice with different content: in standard input and in standard input, document 2",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := verifyBytes([]byte(tc.input))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "never-shown") {
				t.Errorf("the error shows content: %v", err)
			}
		})
	}
}

func TestUsedSecretsInTwoVersionsAreRefused(t *testing.T) {
	e := newExport(t)
	first := e.yaml(t)
	e.secrets[0].Data["certificate"] = []byte("other")
	dir := t.TempDir()
	for name, raw := range map[string][]byte{"a.yaml": first, "b.yaml": e.yaml(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inv, err := (&Files{Paths: []string{filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")}}).Read()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Verify(inv)
	if err == nil || !strings.Contains(err.Error(), "a.yaml and in "+filepath.Join(dir, "b.yaml")) {
		t.Errorf("error %v, want both files named", err)
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	empty := t.TempDir()
	tests := []struct {
		name  string
		paths []string
		want  string
	}{
		{name: "a file that does not exist", paths: []string{filepath.Join(empty, "none.yaml")}, want: "no such file"},
		{name: "a folder without files", paths: []string{empty}, want: "holds no .yaml, .yml or .json file"},
		{name: "standard input twice", paths: []string{"-", "-"}, want: "only once"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := (&Files{Paths: tc.paths, Stdin: strings.NewReader("")}).Read()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestInputIsBounded(t *testing.T) {
	tests := []struct {
		name      string
		allowance allowance
		input     string
	}{
		{name: "bytes", allowance: allowance{bytes: 10, objects: 10}, input: "apiVersion: v1\nkind: Pod\n"},
		{name: "objects", allowance: allowance{bytes: 1000, objects: 2}, input: strings.Repeat("apiVersion: v1\nkind: Pod\n---\n", 3)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := &objectReader{allowance: &tc.allowance, inventory: newInventory(false)}
			if err := r.ReadObjects(strings.NewReader(tc.input), "input"); err == nil || !strings.Contains(err.Error(), "too large") {
				t.Errorf("error %v, want that it is too large", err)
			}
		})
	}
	if _, err := yamlToJSON(bytes.Repeat([]byte("- a\n"), maxMarks/2+1)); err == nil {
		t.Error("a YAML document with more nodes than the bound was read")
	}
}

// TestPlainTextsStayTexts are values that writers of YAML leave unquoted and
// readers take for numbers.
func TestPlainTextsStayTexts(t *testing.T) {
	tests := []struct{ yaml, json string }{
		{"12e4567890123456", `"12e4567890123456"`},
		{"0123456789012345", `"0123456789012345"`},
		{"1_000", `"1_000"`},
		{"0x1F", `"0x1F"`},
		{"1:30", `"1:30"`},
		{"2026-03-01T12:00:00Z", `"2026-03-01T12:00:00Z"`},
		{"yes", `"yes"`},
		{"1.5", `"1.5"`},
		{"12", "12"},
		{"-3", "-3"},
		{`"12"`, `"12"`},
		{"!!str 12", `"12"`},
		{"true", "true"},
		{"~", "null"},
	}
	for _, tc := range tests {
		got, err := yamlToJSON([]byte("a: " + tc.yaml))
		if err != nil {
			t.Errorf("%s: %v", tc.yaml, err)
			continue
		}
		if want := `{"a":` + tc.json + "}"; string(got) != want {
			t.Errorf("%s became %s, want %s", tc.yaml, got, want)
		}
	}
}
