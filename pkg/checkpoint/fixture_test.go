package checkpoint

import (
	"slices"
	"strings"
	"testing"
)

// fixture is one stored checkpoint, built by the reference implementation.
type fixture struct {
	options    fixtureOptions
	template   Template
	checkpoint *StoredCheckpoint
	children   []*StoredChild
	pointer    *Pointer
	planID     string
	files      []refFile
}

type fixtureOptions struct {
	// owned makes children of the checkpoint, as before sharing.
	owned bool
	// foreign leaves evidence out, as other publishers do.
	foreign       bool
	configuration string
	files         []refFile
	// Each of these replaces what the payload would hold. The name follows.
	planJSON, backends, descriptors, evidence string
}

func newFixture(t testing.TB, o fixtureOptions) *fixture {
	t.Helper()
	if o.configuration == "" {
		o.configuration = refConfiguration
	}
	if o.files == nil {
		o.files = refFiles()
	}
	planJSON, planID := refPlanJSON(o.configuration, o.files)
	override := func(value *string, with string) {
		if with != "" {
			*value = with
		}
	}
	override(&planJSON, o.planJSON)
	backends, descriptors := refBackends, refDescriptors(t, o.files)
	override(&backends, o.backends)
	override(&descriptors, o.descriptors)
	evidence := ""
	if !o.foreign {
		evidence = refEvidence(o.configuration, planJSON, o.files)
	}
	override(&evidence, o.evidence)
	f := &fixture{
		options:  o,
		template: Template{Namespace: "ingress", Name: "web", UID: "template-uid"},
		planID:   planID,
		files:    o.files,
	}
	f.build(t, refPayload(planJSON, backends, descriptors, evidence))
	return f
}

func (f *fixture) build(t testing.TB, payload string) {
	t.Helper()
	checksum := refContentChecksum(f.options.configuration, f.files)
	setID := refSetID(f.files)
	f.checkpoint = &StoredCheckpoint{
		Meta: Meta{
			Namespace: "ingress", Name: "web-haproxycfg-retained-" + refHex(checksum+"\x00"+payload), UID: "checkpoint-uid",
			ResourceVersion: "7", Owners: f.templateOwners(),
		},
		TemplateLabel: "web", RetainedFor: "template-uid",
		Path: "/etc/haproxy/haproxy.cfg", Content: f.options.configuration, Checksum: checksum,
		RetainedPlan: payload, SetIDAnnotation: setID,
		References: &References{SetID: setID},
		Receipts: []PodEntry{{
			PodName: "haproxy-0", PodUID: "pod-uid", PodRuntimeID: "run-1", Checksum: checksum,
			AppliedPlanID: f.planID, RunningPlanID: f.planID, Mode: "reload",
		}},
	}
	f.pointer = &Pointer{Name: f.checkpoint.Name, UID: "checkpoint-uid", Checksum: checksum}
	for _, file := range f.files {
		f.addChild(t, file)
	}
	// Stored order of the lists: maps, general files, crt-lists, certificates, CA files.
	place := map[Family]int{Map: 0, General: 1, CRTList: 2, Certificate: 3, CA: 4}
	slices.SortStableFunc(f.checkpoint.References.Lists, func(a, b Reference) int { return place[a.List] - place[b.List] })
}

func (f *fixture) templateOwners() []Owner {
	return []Owner{{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyTemplateConfig", Name: "web", UID: "template-uid", Controller: true}}
}

func (f *fixture) addChild(t testing.TB, file refFile) {
	t.Helper()
	child := &StoredChild{
		Meta: Meta{Namespace: "ingress", UID: "uid-" + file.runtime, Owners: f.templateOwners()},
		Kind: file.kind(), Family: Family(file.family), Path: file.path, Text: file.content,
		Checksum: refChecksum(file.content), Compressed: file.compressed,
	}
	stem := "haproxy-x-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, file.runtime)
	child.Name = stem + "-0123456789ab" + file.contentSuffix()
	if f.options.owned {
		child.Name = stem + file.contentSuffix() + strings.TrimPrefix(f.checkpoint.Name, "web-haproxycfg")
		child.Owners = []Owner{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "bystander", UID: "x"},
			{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyCfg", Name: f.checkpoint.Name, UID: "checkpoint-uid", Controller: true},
		}
	}
	if file.family == 2 || file.family == 6 {
		child.FileName = file.name
	}
	if file.compressed {
		child.Text = refPack(file.content)
	}
	if file.content == "" && child.Kind != "Secret" {
		child.Empty, child.Compressed = true, false
	}
	list := child.Family
	if list == GeneralCA {
		list = General
	}
	f.children = append(f.children, child)
	f.checkpoint.References.Lists = append(f.checkpoint.References.Lists,
		Reference{List: list, Kind: child.Kind, Name: child.Name, Namespace: "ingress"})
}

// child is the stored child of the file with this runtime path.
func (f *fixture) child(t testing.TB, runtime string) *StoredChild {
	t.Helper()
	for _, c := range f.children {
		if c.UID == "uid-"+runtime {
			return c
		}
	}
	t.Fatalf("the fixture has no file %s", runtime)
	return nil
}

// reference is the reference to a child.
func (f *fixture) reference(t testing.TB, runtime string) *Reference {
	t.Helper()
	child := f.child(t, runtime)
	for i := range f.checkpoint.References.Lists {
		if f.checkpoint.References.Lists[i].Name == child.Name {
			return &f.checkpoint.References.Lists[i]
		}
	}
	t.Fatalf("nothing references %s", runtime)
	return nil
}

// rename gives the checkpoint the name that its checksum and payload ask for, and
// the pointer what it needs to follow.
func (f *fixture) rename() {
	f.checkpoint.Name = "web-haproxycfg-retained-" + refHex(f.checkpoint.Checksum+"\x00"+f.checkpoint.RetainedPlan)
	if f.pointer != nil {
		f.pointer.Name = f.checkpoint.Name
	}
}

func (f *fixture) verify() (Verdict, *Output) {
	return Verify(f.template, f.checkpoint, f.children, f.pointer)
}

// judge is the digest-only way: ingest each object for itself, remember the
// content checksum that a stream would give.
func (f *fixture) judge() Verdict {
	facts := make(map[childKey]*ChildFacts)
	for _, c := range f.children {
		if c.Namespace == f.checkpoint.Namespace {
			facts[childKey{c.Kind, c.Name}] = IngestChild(c)
		}
	}
	return Judge(Input{
		Template:   f.template,
		Checkpoint: IngestCheckpoint(f.checkpoint),
		Child: func(kind, name string) (*ChildFacts, Presence) {
			if found, ok := facts[childKey{kind, name}]; ok {
				return found, Present
			}
			return nil, Missing
		},
		Pointer: f.pointer,
		ContentChecksum: func(string) (string, bool) {
			return refContentChecksum(f.options.configuration, f.files), true
		},
	})
}
