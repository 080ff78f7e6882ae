package viewfeed

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// entity is one stored object of a random history and the forms it can take.
// The first form is the right one.
type entity struct {
	kind, name string
	forms      []stored
	// facts are what ingestion makes of the forms, once for all histories.
	facts []*seen
}

// cast is everything that random histories store. It is made once, because
// compressing payloads takes longer than a whole history.
type cast struct {
	entities []entity
	// files leads from a checkpoint to the entities that store its files.
	files map[string][]string
}

// newCast has one template and three checkpoints: two share all files, and one
// has a map of its own.
func newCast(t *testing.T) *cast {
	t.Helper()
	first, second := newFixture(t, "one"), newFixture(t, "two")
	third := newFixture(t, "three")
	third = otherMap(t, third)
	c := &cast{files: map[string][]string{}}
	for _, f := range []*fixture{first, second, third} {
		f.hosts.UID, f.page.UID, f.certificate.UID = types.UID("m"+f.hosts.Name), types.UID("g"+f.page.Name), types.UID("s"+f.certificate.Name)
		c.files[f.checkpoint.Name] = []string{f.hosts.Name, f.page.Name, f.certificate.Name}
		c.add(v1alpha1.KindCfg, f.checkpoint, altered(f.checkpoint, func(o *v1alpha1.HAProxyCfg) { o.Spec.Content += "# tampered\n" }),
			altered(f.checkpoint, func(o *v1alpha1.HAProxyCfg) { o.Status = v1alpha1.HAProxyCfgStatus{} }))
		c.add(v1alpha1.KindMapFile, f.hosts, f.tampered())
	}
	c.add(v1alpha1.KindGeneralFile, first.page, altered(first.page, func(o *v1alpha1.HAProxyGeneralFile) { o.Spec.Content = "x" }))
	bad := first.certificate.DeepCopy()
	bad.Data[v1alpha1.SecretKeyCertificate] = []byte("x")
	unlabelled := first.certificate.DeepCopy()
	unlabelled.Labels = nil
	c.add(v1alpha1.KindSecret, first.certificate, bad, unlabelled)
	c.add(v1alpha1.KindTemplateConfig, first.template)
	c.add(v1alpha1.KindCfg, pointing(first.ordinary, first, second, third), pointing(first.ordinary, second, first),
		pointing(first.ordinary, third), pointing(first.ordinary))
	c.add(KindLease, first.election, altered(first.election, func(o *coordinationv1.Lease) {
		o.Annotations[v1alpha1.AnnotationLeaderEpoch] = "8"
	}))
	c.add(KindLease, first.retained, second.retained, third.retained)
	return c
}

func (c *cast) add(kind string, forms ...stored) {
	for _, e := range c.entities {
		if e.kind == kind && e.name == forms[0].GetName() {
			return // shared by checkpoints
		}
	}
	e := entity{kind: kind, name: forms[0].GetName(), forms: forms}
	for _, form := range forms {
		fact, err := ingest(form)
		if err != nil {
			panic(err)
		}
		e.facts = append(e.facts, fact)
	}
	c.entities = append(c.entities, e)
}

func altered[O interface {
	stored
	DeepCopy() O
}](obj O, change func(O)) O {
	copied := obj.DeepCopy()
	change(copied)
	return copied
}

// pointing is the ordinary output with pointers to the given checkpoints.
func pointing(ordinary *v1alpha1.HAProxyCfg, to ...*fixture) *v1alpha1.HAProxyCfg {
	o := ordinary.DeepCopy()
	o.Status.RetainedConfigs = nil
	for _, f := range to {
		o.Status.RetainedConfigs = append(o.Status.RetainedConfigs, f.ordinary.Status.RetainedConfigs[0])
	}
	return o
}

// written is one object as it is stored now.
type written struct {
	obj  stored
	fact *seen
	form int
}

// event is one step of a kind's stream; fact is nil for a deletion.
type event struct {
	name string
	fact *seen
}

// truth is the cluster: what is stored, and the streams of each kind, which
// have no common order.
type truth struct {
	cast    *cast
	version int64
	objects map[string]*written
	streams map[string][]event
}

func newTruth(c *cast) *truth {
	return &truth{cast: c, version: 100, objects: map[string]*written{}, streams: map[string][]event{}}
}

func idOf(kind, name string) string { return kind + "/" + name }

// change writes or deletes a random object and says what it did.
func (tr *truth) change(r *rand.Rand) string {
	e := &tr.cast.entities[r.IntN(len(tr.cast.entities))]
	switch before := tr.objects[idOf(e.kind, e.name)]; {
	case before != nil && r.IntN(4) == 0:
		tr.remove(e)
		return "delete " + idOf(e.kind, e.name)
	case r.IntN(2) == 0:
		tr.put(e, 0)
		return "write sound " + idOf(e.kind, e.name)
	default:
		form := r.IntN(len(e.forms))
		tr.put(e, form)
		return "write form " + strconv.Itoa(form) + " of " + idOf(e.kind, e.name)
	}
}

func (tr *truth) put(e *entity, form int) {
	tr.version++
	version, at := strconv.FormatInt(tr.version, 10), time.Unix(1_770_000_000+tr.version, 0).UTC()
	fact := stampedFact(e.facts[form], version, at)
	id := idOf(e.kind, e.name)
	was := tr.objects[id]
	now := &written{stamped(e.forms[form], version, at), fact, form}
	tr.objects[id] = now
	switch {
	case now.streamed():
		tr.streams[e.kind] = append(tr.streams[e.kind], event{e.name, fact})
	case was != nil && was.streamed():
		tr.streams[e.kind] = append(tr.streams[e.kind], event{name: e.name})
	}
}

func (tr *truth) remove(e *entity) {
	id := idOf(e.kind, e.name)
	was := tr.objects[id]
	delete(tr.objects, id)
	if was.streamed() {
		tr.streams[e.kind] = append(tr.streams[e.kind], event{name: e.name})
	}
}

// streamed is false for a Secret without the label that is selected by.
func (w *written) streamed() bool {
	return kindOf(w.obj) != v1alpha1.KindSecret || w.obj.GetLabels()[v1alpha1.LabelType] != ""
}

// all is what a list of a kind answers.
func (tr *truth) all(kind string) []any {
	var found []any
	for _, e := range tr.cast.entities {
		if w := tr.objects[idOf(e.kind, e.name)]; e.kind == kind && w != nil && w.streamed() {
			found = append(found, w.fact)
		}
	}
	return found
}

// verified says which checkpoints exist, and whether each is as it was written
// and all its files too. It knows nothing of how verdicts are made.
func (tr *truth) verified() map[string]bool {
	sound := map[string]bool{}
	for _, e := range tr.cast.entities {
		if w := tr.objects[idOf(e.kind, e.name)]; w != nil {
			sound[e.name] = w.form == 0
		}
	}
	want := map[string]bool{}
	for name, files := range tr.cast.files {
		if tr.objects[idOf(v1alpha1.KindCfg, name)] == nil {
			continue
		}
		want[name] = sound[name]
		for _, file := range files {
			want[name] = want[name] && sound[file]
		}
	}
	return want
}

// otherMap is a fixture whose map has an entry more, so that it shares two files
// of three with the others.
func otherMap(t *testing.T, f *fixture) *fixture {
	t.Helper()
	output := &checkpoint.Output{ConfigurationPath: "haproxy.cfg", Configuration: []byte(f.checkpoint.Spec.Content), Artifacts: fixtureArtifacts()}
	output.Artifacts[0].Content = append(output.Artifacts[0].Content, "b.example web\n"...)
	output.Plan = planOf(t, output.Configuration, output.Artifacts)
	payload, err := checkpoint.EncodePayload(output)
	if err != nil {
		t.Fatal(err)
	}
	return newStored(output, payload)
}

// stamped is an object as it was written at a version. What it shares with the
// form it was made from is never changed.
func stamped(form stored, version string, at time.Time) stored {
	var obj stored
	switch o := form.(type) {
	case *v1alpha1.HAProxyCfg:
		c := *o
		obj = &c
	case *v1alpha1.HAProxyMapFile:
		c := *o
		obj = &c
	case *v1alpha1.HAProxyGeneralFile:
		c := *o
		obj = &c
	case *corev1.Secret:
		c := *o
		obj = &c
	default:
		obj = form.DeepCopyObject().(stored)
	}
	obj.SetResourceVersion(version)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "test", Time: &metav1.Time{Time: at}}})
	return obj
}

// stampedFact is what ingestion makes of stamped, for less.
func stampedFact(base *seen, version string, at time.Time) *seen {
	s := *base
	switch fact := base.fact.(type) {
	case *retainedFact:
		r, facts := *fact, *fact.CheckpointFacts
		facts.ResourceVersion = version
		r.CheckpointFacts, r.modified = &facts, at
		s.fact = &r
	case *childFact:
		c, facts := *fact, *fact.ChildFacts
		facts.ResourceVersion = version
		c.ChildFacts, c.modified = &facts, at
		s.fact = &c
	}
	return &s
}
