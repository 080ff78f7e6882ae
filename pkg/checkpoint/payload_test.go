package checkpoint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// output is what the fixture's files are stored from.
func output(t testing.TB) *Output {
	t.Helper()
	f := newFixture(t, fixtureOptions{})
	_, o := f.verify()
	if o == nil {
		t.Fatal("the fixture does not verify")
	}
	return o
}

func TestEncodePayloadWritesTheTwoLayers(t *testing.T) {
	o := output(t)
	planJSON, _ := refPlanJSON(refConfiguration, refFiles())
	text, err := EncodePayload(o)
	if err != nil {
		t.Fatalf("EncodePayload: %v", err)
	}
	outer := refUnpack(t, text)
	start, rest, found := strings.Cut(outer, `{"plan":"`)
	inner, rest, found2 := strings.Cut(rest, `"`)
	if !found || !found2 || start != "" {
		t.Fatalf("outer layer: %s", outer)
	}
	want := `,"artifacts":` + refDescriptors(t, refFiles()) + `,"evidence":"` + refEvidence(refConfiguration, planJSON, refFiles()) + `"}`
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Errorf("outer layer behind the plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(`{"plan":`+planJSON+`,"backends":`+refBackends+`}`, refUnpack(t, inner)); diff != "" {
		t.Errorf("inner layer (-want +got):\n%s", diff)
	}
	again, err := EncodePayload(o)
	if err != nil || again != text {
		t.Errorf("the same output has two payloads, so two names: %v", err)
	}
}

func TestEncodePayloadOfASmallOutput(t *testing.T) {
	o := &Output{Configuration: []byte("global\n"), Plan: &plan.Plan{SchemaVersion: 1}}
	o.Plan.ID, _ = o.Plan.ComputeID()
	text, err := EncodePayload(o)
	if err != nil {
		t.Fatalf("EncodePayload: %v", err)
	}
	outer := refUnpack(t, text)
	if !strings.Contains(outer, `,"artifacts":null,"evidence":"sha256:`) {
		t.Errorf("outer layer: %s", outer)
	}
	inner, _, _ := strings.Cut(strings.TrimPrefix(outer, `{"plan":"`), `"`)
	if got := refUnpack(t, inner); !strings.HasSuffix(got, `,"backends":{}}`) {
		t.Errorf("inner layer: %s", got)
	}
}

func TestEncodePayloadNormalizes(t *testing.T) {
	o := output(t)
	want, err := EncodePayload(o)
	if err != nil {
		t.Fatalf("EncodePayload: %v", err)
	}
	o.Artifacts[0], o.Artifacts[3] = o.Artifacts[3], o.Artifacts[0]
	o.Artifacts[0].ReloadOnChange = true // of a certificate, which has no choice
	got, err := EncodePayload(o)
	if err != nil {
		t.Fatalf("EncodePayload: %v", err)
	}
	if got != want {
		t.Error("order and meaningless flags change the payload")
	}
	o.SortArtifacts()
	if o.Artifacts[0].RuntimePath != mapRow {
		t.Errorf("the first artifact in walk order is %s", o.Artifacts[0].RuntimePath)
	}
}

func TestEncodePayloadRefusesWhatNobodyCouldRead(t *testing.T) {
	tests := []struct {
		name, message string
		change        func(o *Output)
	}{
		{name: "no plan", message: "no plan", change: func(o *Output) { o.Plan = nil }},
		{name: "a wrong plan ID", message: "plan ID", change: func(o *Output) { o.Plan.ID = "x" }},
		{name: "a backend without text", message: "0 backends", change: func(o *Output) { o.Backends = nil }},
		{name: "another backend", message: `"be"`, change: func(o *Output) { o.Backends = map[string]BackendText{"x": o.Backends["be"]} }},
		{name: "other lines", message: `"be"`, change: func(o *Output) { o.Backends["be"] = BackendText{Body: []string{"x"}} }},
		{name: "an unknown family", message: "family", change: func(o *Output) { o.Artifacts[0].Family = 7 }},
		{name: "no runtime path", message: "runtime path", change: func(o *Output) { o.Artifacts[0].RuntimePath = "" }},
		{name: "a runtime path twice", message: "share", change: func(o *Output) { o.Artifacts[0].RuntimePath = generalRow }},
		{name: "the configuration's runtime path", message: "share", change: func(o *Output) { o.Artifacts[0].RuntimePath = "haproxy.cfg" }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := output(t)
			tc.change(o)
			if _, err := EncodePayload(o); err == nil || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("EncodePayload error: %v; want one about %s", err, tc.message)
			}
		})
	}
}

func TestEqualPayload(t *testing.T) {
	ours, err := EncodePayload(output(t))
	if err != nil {
		t.Fatalf("EncodePayload: %v", err)
	}
	outer := refUnpack(t, ours)
	inner, _, _ := strings.Cut(strings.TrimPrefix(outer, `{"plan":"`), `"`)
	otherInner := func(old, with string) string {
		text := strings.Replace(refUnpack(t, inner), old, with, 1)
		return refPack(strings.Replace(outer, inner, refPack(text), 1))
	}
	tests := []struct {
		name, other  string
		equal, fails bool
	}{
		{name: "the same text", other: ours, equal: true},
		{name: "another compression", other: refPack(strings.Replace(outer, inner, inner+"\\n", 1)), equal: true},
		{name: "white space", other: refPack(" " + outer), equal: true},
		{name: "other evidence", other: refPack(strings.Replace(outer, `"evidence":"sha256:`, `"evidence":"sha256:0`, 1))},
		{name: "another artifact", other: refPack(strings.Replace(outer, `"Family":5`, `"Family":6`, 1))},
		{name: "a family that fits no byte", other: refPack(strings.Replace(outer, `"Family":5`, `"Family":261`, 1))},
		{name: "another plan", other: otherInner(`"global"`, `"globe"`)},
		{name: "other lines", other: otherInner(`"option x"`, `"option y"`)},
		{name: "no list against an empty one", other: otherInner(`"comments":null`, `"comments":[]`)},
		{name: "a member of a later release", other: refPack(strings.Replace(outer, "{", `{"later":1,`, 1))},
		{name: "no payload", other: "x", fails: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			equal, err := EqualPayload(ours, tc.other)
			if equal != tc.equal || (err != nil) != tc.fails {
				t.Errorf("EqualPayload: %t, %v; want %t, error: %t", equal, err, tc.equal, tc.fails)
			}
			if equal, _ := EqualPayload(tc.other, ours); equal != tc.equal {
				t.Errorf("EqualPayload the other way round: %t", equal)
			}
		})
	}
}

// What EncodePayload writes for an output, verification reads back.
func TestAPublishedOutputVerifies(t *testing.T) {
	o := output(t)
	payload, err := EncodePayload(o)
	if err != nil {
		t.Fatalf("EncodePayload: %v", err)
	}
	template := Template{Namespace: "n", Name: "t", UID: "tu"}
	owners := []Owner{{APIVersion: GroupVersion, Kind: KindTemplate, Name: "t", UID: "tu", Controller: true}}
	checksum := o.Checksum()
	c := &StoredCheckpoint{
		Meta:          Meta{Namespace: "n", Name: CheckpointName("t", checksum, payload), UID: "cu", Owners: owners},
		TemplateLabel: "t", RetainedFor: "tu", Path: o.ConfigurationPath, Checksum: checksum, RetainedPlan: payload,
		References: &References{},
		Receipts:   []PodEntry{{PodName: "p", PodUID: "u", PodRuntimeID: "r", Checksum: checksum, AppliedPlanID: o.Plan.ID, RunningPlanID: "x", WorkerOpsPlanID: o.Plan.ID, Mode: "runtime"}},
	}
	c.Content, c.Compressed = Store(o.Configuration, 10)
	var children []*StoredChild
	var checksums []string
	for _, a := range o.Artifacts {
		sum := FileChecksum(a.Content)
		child := &StoredChild{
			Meta: Meta{Namespace: "n", Name: SharedChildName(a.Descriptor, sum, "t", "tu"), UID: "u", Owners: owners},
			Kind: a.Family.Kind(), Family: a.Family, Path: a.Path, Checksum: sum, Empty: len(a.Content) == 0,
		}
		child.Text, child.Compressed = Store(a.Content, 10)
		if a.Family.NamedByFile() {
			child.FileName = a.Name
		}
		children = append(children, child)
		checksums = append(checksums, sum)
		c.References.Lists = append(c.References.Lists, Reference{List: group(a.Family), Kind: child.Kind, Name: child.Name, Namespace: "n"})
	}
	c.References.SetID = SetID(o.Descriptors(), checksums)
	c.SetIDAnnotation = c.References.SetID
	v, restored := Verify(template, c, children, &Pointer{Name: c.Name, UID: "cu", Checksum: checksum})
	if v.State != Verified || len(v.Findings) > 0 || !v.Acknowledged {
		t.Fatalf("verdict %s, acknowledged %t: %+v", v.State, v.Acknowledged, v.Findings)
	}
	if diff := cmp.Diff(o, restored); diff != "" {
		t.Errorf("the restored output (-want +got):\n%s", diff)
	}
}

func FuzzDecodePayload(f *testing.F) {
	ours, err := EncodePayload(output(f))
	if err != nil {
		f.Fatal(err)
	}
	outer := refUnpack(f, ours)
	inner, _, _ := strings.Cut(strings.TrimPrefix(outer, `{"plan":"`), `"`)
	for _, seed := range []string{ours, outer, refUnpack(f, inner), "", `{"plan":"","artifacts":[{"Family":-1}]}`} {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(2))
	}
	// The fuzzer mutates any of the three layers; the outer ones are built around it.
	f.Fuzz(func(t *testing.T, text string, depth uint8) {
		switch depth % 3 {
		case 1:
			text = pack([]byte(text))
		case 2:
			text = pack([]byte(`{"plan":"` + pack([]byte(text)) + `","artifacts":[{"Family":1,"Path":"x"}]}`))
		}
		s := &StoredCheckpoint{Meta: Meta{Name: "c"}, Content: refConfiguration, RetainedPlan: text}
		facts := IngestCheckpoint(s)
		v := Judge(Input{Checkpoint: facts, Child: func(string, string) (*ChildFacts, Presence) { return nil, Missing }})
		if v.State == Verified {
			t.Fatal("a checkpoint without owner is verified")
		}
		for _, finding := range v.Findings {
			if finding.Reason == "" || finding.Message == "" || len(finding.Message) > 4096 {
				t.Fatalf("finding %+v", finding)
			}
		}
		if equal, err := EqualPayload(text, text+"\n"); err == nil && !equal && len(facts.UnknownMembers) == 0 && facts.readable {
			t.Fatal("a payload does not equal itself in another spelling")
		}
	})
}
