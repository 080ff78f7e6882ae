package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

var update = flag.Bool("update", false, "rewrite the examples of the document from the code")

const wireFormat = "../../docs/wire-format.md"

// example is a fenced block with a language and a name.
var example = regexp.MustCompile("(?ms)^```[a-z]+ ([^ \n]+)\n(.*?)^```$")

var exampleTemplate = Template{Namespace: "ingress", Name: "web", UID: "4d1a5b0c-6f0e-4c55-9d5b-0c8d7c1f2a11"}

// The examples of the document are what the code computes from its inputs.
func TestTheDocumentedExamplesAreWhatTheCodeWrites(t *testing.T) {
	document, err := os.ReadFile(wireFormat)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, match := range example.FindAllStringSubmatch(string(document), -1) {
		blocks[match[1]] = match[2]
	}
	o := documentedOutput(t, blocks)
	if *update {
		rewriteExamples(t, string(document), o)
		return
	}
	outer, err := Load(strings.TrimSpace(blocks["retained-plan"]), true, nil)
	if err != nil {
		t.Fatalf("the documented retainedPlan: %v", err)
	}
	var layer struct{ Plan string }
	if err := json.Unmarshal(outer, &layer); err != nil {
		t.Fatal(err)
	}
	inner, err := Load(layer.Plan, true, nil)
	if err != nil {
		t.Fatalf("the documented inner layer: %v", err)
	}
	want := examplesOf(t, o, strings.TrimSpace(blocks["retained-plan"]), layer.Plan)
	if diff := cmp.Diff(want["outer"], string(outer)+"\n"); diff != "" {
		t.Errorf("documented retainedPlan, decoded (-code +document):\n%s", diff)
	}
	if diff := cmp.Diff(want["inner"], string(inner)+"\n"); diff != "" {
		t.Errorf("documented inner layer, decoded (-code +document):\n%s", diff)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if diff := cmp.Diff(want[name], blocks[name]); diff != "" {
			t.Errorf("example %s (-code +document):\n%s", name, diff)
		}
	}
	verifyDocumented(t, o, strings.TrimSpace(blocks["retained-plan"]))
}

// verifyDocumented stores the example under its documented names.
func verifyDocumented(t *testing.T, o *Output, retainedPlan string) {
	t.Helper()
	owners := []Owner{{APIVersion: GroupVersion, Kind: KindTemplate, Name: exampleTemplate.Name, UID: exampleTemplate.UID, Controller: true}}
	refs := &References{}
	var children []*StoredChild
	var sums []string
	for _, a := range o.Artifacts {
		sum := FileChecksum(a.Content)
		child := &StoredChild{
			Meta: Meta{Namespace: exampleTemplate.Namespace, UID: a.Path, Owners: owners,
				Name: SharedChildName(a.Descriptor, sum, exampleTemplate.Name, exampleTemplate.UID)},
			Kind: a.Family.Kind(), Family: a.Family, Path: a.Path, Text: string(a.Content), Checksum: sum,
		}
		if a.Family.NamedByFile() {
			child.FileName = a.Name
		}
		children, sums = append(children, child), append(sums, sum)
		refs.Lists = append(refs.Lists, Reference{List: a.Family, Kind: child.Kind, Name: child.Name, Namespace: child.Namespace})
	}
	refs.SetID = SetID([]Descriptor{o.Artifacts[0].Descriptor, o.Artifacts[1].Descriptor}, sums)
	checksum := ContentChecksum(o.Configuration, o.Artifacts)
	verdict, restored := Verify(exampleTemplate, &StoredCheckpoint{
		Meta: Meta{Namespace: exampleTemplate.Namespace, UID: "c", Owners: owners,
			Name: CheckpointName(exampleTemplate.Name, checksum, retainedPlan)},
		TemplateLabel: exampleTemplate.Name, RetainedFor: exampleTemplate.UID,
		Path: o.ConfigurationPath, Content: string(o.Configuration), Checksum: checksum,
		RetainedPlan: retainedPlan, SetIDAnnotation: refs.SetID, References: refs,
	}, children, nil)
	if verdict.State != Verified {
		t.Errorf("the documented checkpoint is %s, %s: %s", verdict.State, verdict.Reason, verdict.Message)
	}
	if diff := cmp.Diff(o, restored); diff != "" {
		t.Errorf("the documented output, restored (-want +got):\n%s", diff)
	}
}

// documentedOutput is the output that the document's inputs describe.
func documentedOutput(t *testing.T, blocks map[string]string) *Output {
	t.Helper()
	configuration, entries, page := blocks["configuration"], blocks["hosts.map"], blocks["503.http"]
	core, backend, found := strings.Cut(configuration, "backend be\n")
	if !found || entries == "" || page == "" {
		t.Fatal("the document lacks an input of its example")
	}
	backend = "backend be\n" + backend
	text := BackendText{Body: []string{}, Comments: []string{"shop"}}
	port := plan.Server{Name: "s1", Address: "10.0.0.1", Port: 80}
	record := plan.Backend{
		Name: "be", Shape: plan.ShapeDynamic, Servers: []plan.Server{port},
		BodyDigest: plan.LinesDigest(text.Body), CommentsDigest: plan.LinesDigest(text.Comments), TextDigest: plan.DigestString(backend),
	}
	raw, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	record.RecordDigest = plan.Digest(raw)
	file := func(path, kind, content string, reload bool) plan.File {
		return plan.File{Path: path, Kind: kind, ReloadOnChange: reload, Digest: plan.DigestString(content), Size: int64(len(content))}
	}
	p := &plan.Plan{
		SchemaVersion: plan.SchemaVersion,
		Sections: []plan.Section{
			{Kind: plan.SectionCore, TextDigest: plan.DigestString(core), Length: int64(len(core))},
			{Kind: plan.SectionBackend, Name: "be", TextDigest: plan.DigestString(backend), Length: int64(len(backend))},
		},
		Backends: map[string]plan.Backend{"be": record},
		Profiles: map[string]plan.Profile{},
		Maps:     map[string]plan.Map{"maps/hosts.map": {Path: "maps/hosts.map", Entries: plan.MapEntries([]byte(entries))}},
		Files: []plan.File{
			file(plan.ConfigPath, plan.FileConfig, configuration, true),
			file("maps/hosts.map", plan.FileMap, entries, false),
			file("general/503.http", plan.FileGeneral, page, true),
		},
	}
	if p.ID, err = p.ComputeID(); err != nil {
		t.Fatal(err)
	}
	return &Output{
		ConfigurationPath: "/etc/haproxy/haproxy.cfg", Configuration: []byte(configuration), Plan: p,
		Backends: map[string]BackendText{"be": text},
		Artifacts: []Artifact{
			{Descriptor{Family: Map, Name: "/etc/haproxy/maps/hosts.map", Path: "/etc/haproxy/maps/hosts.map", RuntimePath: "maps/hosts.map"}, []byte(entries)},
			{Descriptor{Family: General, Name: "503.http", Path: "/etc/haproxy/general/503.http", RuntimePath: "general/503.http", ReloadOnChange: true}, []byte(page)},
		},
	}
}

// examplesOf computes every example but the compressed texts, which are given.
func examplesOf(t *testing.T, o *Output, retainedPlan, innerText string) map[string]string {
	t.Helper()
	marshal := func(value any) string {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	unnamed := *o.Plan
	unnamed.ID = ""
	rawPlan := marshal(o.Plan)
	fields, setInput := documentedEvidence(o, rawPlan), documentedSet(o)
	evidence := "sha256:" + refHex(strings.Join(fields, ""))
	examples := map[string]string{
		"plan":         marshal(&unnamed),
		"inner":        marshal(innerPayload{Plan: json.RawMessage(rawPlan), Backends: o.Backends}),
		"outer":        marshal(outerPayload{Plan: innerText, Artifacts: []Descriptor{o.Artifacts[0].Descriptor, o.Artifacts[1].Descriptor}, Evidence: evidence}),
		"set-id-input": setInput,
	}
	var lines []string
	for _, field := range fields {
		lines = append(lines, hex.EncodeToString([]byte(field[:8]))+" "+hex.EncodeToString([]byte(field[8:])))
	}
	examples["evidence-fields"] = strings.Join(lines, "\n")
	examples["values"] = strings.Join(documentedValues(t, o, retainedPlan, rawPlan, evidence, setInput), "\n")
	for name := range examples {
		examples[name] += "\n"
	}
	return examples
}

// documentedValues are the names and digests that the code computes, those
// compared that the test knows from the document's rules too.
func documentedValues(t *testing.T, o *Output, retainedPlan, rawPlan, evidence, setInput string) []string {
	t.Helper()
	sums := make([]string, len(o.Artifacts))
	descriptors := make([]Descriptor, len(o.Artifacts))
	described := make([]DescribedSum, len(o.Artifacts))
	for i, a := range o.Artifacts {
		sums[i], descriptors[i] = FileChecksum(a.Content), a.Descriptor
		described[i] = DescribedSum{a.Descriptor, Summarize(a.Content)}
	}
	if got := Evidence(Summarize(o.Configuration), Summarize([]byte(rawPlan)), described); got != evidence {
		t.Errorf("evidence is %s, of the documented fields %s", got, evidence)
	}
	setID := SetID(descriptors, sums)
	if want := "content-sha256:" + refHex(setInput); setID != want {
		t.Errorf("set ID is %s, of the documented input %s", setID, want)
	}
	ordinary, checksum := OrdinaryName(exampleTemplate.Name), ContentChecksum(o.Configuration, o.Artifacts)
	const ordinaryUID = "0b7d3c52-3f0a-4a4e-8f60-9a8a5c2d7e01"
	var values []string
	value := func(format string, args ...any) { values = append(values, fmt.Sprintf(format, args...)) }
	value("plan ID                   %s", o.Plan.ID)
	value("content checksum          %s", checksum)
	value("file checksum hosts.map   %s", sums[0])
	value("file checksum 503.http    %s", sums[1])
	value("set ID                    %s", setID)
	value("evidence                  %s", evidence)
	value("checkpoint                %s", CheckpointName(exampleTemplate.Name, checksum, retainedPlan))
	value("shared child hosts.map    %s", SharedChildName(descriptors[0], sums[0], exampleTemplate.Name, exampleTemplate.UID))
	value("shared child 503.http     %s", SharedChildName(descriptors[1], sums[1], exampleTemplate.Name, exampleTemplate.UID))
	value("ordinary output           %s with UID %s", ordinary, ordinaryUID)
	value("ordinary child hosts.map  %s", OrdinaryChildName(descriptors[0], sums[0], ordinary, ordinaryUID))
	value("label runtime-config      %s", LabelValue(ordinary))
	value("retained-state Lease      %s", RetainedStateLeaseName(exampleTemplate.Name))
	return values
}

// documentedEvidence follows the document field by field and not the code.
func documentedEvidence(o *Output, planJSON string) []string {
	var fields []string
	field := func(text string) {
		fields = append(fields, string(binary.BigEndian.AppendUint64(nil, uint64(len(text))))+text)
	}
	number := func(n int) { field(string(binary.BigEndian.AppendUint64(nil, uint64(n)))) }
	content := func(b []byte) {
		sum := sha256.Sum256(b)
		number(len(b))
		field(string(sum[:]))
	}
	field("holdfast-evidence-v1")
	content(o.Configuration)
	content([]byte(planJSON))
	number(len(o.Artifacts))
	for _, a := range o.Artifacts {
		flag := "\x00"
		if a.ReloadOnChange {
			flag = "\x01"
		}
		for _, text := range []string{string([]byte{byte(a.Family)}), a.Name, a.Path, a.RuntimePath, flag} {
			field(text)
		}
		content(a.Content)
	}
	return fields
}

// documentedSet is the input of the set ID of one map and one general file.
func documentedSet(o *Output) string {
	m, g := o.Artifacts[0], o.Artifacts[1]
	return fmt.Sprintf(`{"MapFiles":[{"Path":%q}],"SSLCertificates":null,"SSLCaFiles":null,`+
		`"GeneralFiles":[{"Filename":%q,"Path":%q,"IsCaFile":false,"ReloadOnPush":true}],"CRTListFiles":null}`,
		m.Path, g.Name, g.Path) + FileChecksum(m.Content) + FileChecksum(g.Content)
}

func rewriteExamples(t *testing.T, document string, o *Output) {
	t.Helper()
	retainedPlan, err := EncodePayload(o)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := Load(retainedPlan, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	var layer struct{ Plan string }
	if err := json.Unmarshal(outer, &layer); err != nil {
		t.Fatal(err)
	}
	examples := examplesOf(t, o, retainedPlan, layer.Plan)
	examples["retained-plan"] = retainedPlan + "\n"
	document = example.ReplaceAllStringFunc(document, func(block string) string {
		match := example.FindStringSubmatch(block)
		text, ok := examples[match[1]]
		if !ok {
			return block
		}
		return strings.TrimSuffix(block, match[2]+"```") + text + "```"
	})
	if err := os.WriteFile(wireFormat, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
}
