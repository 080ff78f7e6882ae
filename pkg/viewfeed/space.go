package viewfeed

import (
	"maps"
	"reflect"
	"slices"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// childKey names an object that stores a file.
type childKey struct{ kind, name string }

// names is a set of object names.
type names map[string]struct{}

// space is what is known of one namespace. Nothing refers to another one.
type space struct {
	namespace string
	templates map[string]*templateFact
	outputs   map[string]*outputFact
	leases    map[string]*leaseFact
	children  map[childKey]*child
	retained  map[string]*retained
	// referencing leads from a child to the checkpoints that reference it, mostly
	// one, and ofTemplate from a template's name to its checkpoints.
	referencing map[childKey][]string
	ofTemplate  map[string]names
}

// child is one stored file.
type child struct {
	*childFact
	// borrowed: it was read because a checkpoint references it, and is not in
	// the stream.
	borrowed bool
}

// maxCompositions is how many content checksums are remembered per checkpoint:
// that of the sound composition, and some of others that somebody tries.
const maxCompositions = 4

// retained is one stored checkpoint.
type retained struct {
	*retainedFact
	// gone are referenced children that are known not to exist; mostly none.
	gone map[childKey]bool
	// compositions are the newest that were streamed, oldest first.
	compositions []composition

	// reading is what a stream of its bytes must find, while one is wanted.
	reading *reading
	// view is the one in the cache, so that it is not kept twice.
	view *views.RetainedCheckpoint
}

// composition is what a stream of the bytes that evidence is of gave.
type composition struct{ evidence, checksum string }

func newSpace(namespace string) *space {
	return &space{
		namespace:   namespace,
		templates:   map[string]*templateFact{},
		outputs:     map[string]*outputFact{},
		leases:      map[string]*leaseFact{},
		children:    map[childKey]*child{},
		retained:    map[string]*retained{},
		referencing: map[childKey][]string{},
		ofTemplate:  map[string]names{},
	}
}

// remember keeps the content checksum of a composition of bytes.
func (r *retained) remember(evidence, checksum string) {
	if _, known := r.checksumOf(evidence); known {
		return
	}
	kept := r.compositions[max(0, len(r.compositions)+1-maxCompositions):]
	// Never in place: the bytes may belong to the facts that came before.
	r.compositions = append(slices.Clip(kept), composition{evidence, checksum})
}

// checksumOf is the content checksum of a composition that was streamed.
func (r *retained) checksumOf(evidence string) (checksum string, known bool) {
	for _, c := range r.compositions {
		if c.evidence == evidence {
			return c.checksum, true
		}
	}
	return "", false
}

// lack notes that a referenced child is known not to exist.
func (r *retained) lack(key childKey) {
	if r.gone == nil {
		r.gone = map[childKey]bool{}
	}
	r.gone[key] = true
}

// dirty is what a change made out of date, in one namespace.
type dirty struct {
	checkpoints names
	templates   names
}

func newDirty() *dirty { return &dirty{checkpoints: names{}, templates: names{}} }

func (d *dirty) add(checkpoints []string) {
	for _, name := range checkpoints {
		d.checkpoints[name] = struct{}{}
	}
}

// template marks a template's intent and all its checkpoints.
func (d *dirty) template(sp *space, name string) {
	d.templates[name] = struct{}{}
	for checkpoint := range sp.ofTemplate[name] {
		d.checkpoints[checkpoint] = struct{}{}
	}
}

// put takes a fact in and marks what depends on it.
func (sp *space) put(s *seen, d *dirty) {
	switch fact := s.fact.(type) {
	case *templateFact:
		sp.templates[s.name] = fact
		d.template(sp, s.name)
	case *outputFact:
		sp.removeRetained(s.name, d)
		sp.putOutput(s.name, fact, d)
	case *retainedFact:
		sp.removeOutput(s.name, d)
		sp.putRetained(s.name, fact, d)
	case *childFact:
		sp.putChild(&child{childFact: fact}, d)
	case *leaseFact:
		if before := sp.leases[s.name]; before != nil && reflect.DeepEqual(before, fact) {
			// A renewal.
			return
		}
		sp.leases[s.name] = fact
		sp.markLease(s.name, d)
	}
}

// remove takes out an object that is gone and marks what depended on it.
func (sp *space) remove(kind, name string, d *dirty) {
	switch kind {
	case v1alpha1.KindTemplateConfig:
		d.template(sp, name)
		delete(sp.templates, name)
	case v1alpha1.KindCfg:
		sp.removeRetained(name, d)
		sp.removeOutput(name, d)
	case KindLease:
		sp.markLease(name, d)
		delete(sp.leases, name)
	default:
		sp.removeChild(childKey{kind, name}, d)
	}
}

// lose takes out an object that cannot be read any more. Unlike one that is gone,
// a file is looked for when its kind can be read again.
func (sp *space) lose(kind, name string, d *dirty) {
	key := childKey{kind, name}
	if _, isFile := sp.children[key]; !isFile {
		sp.remove(kind, name, d)
		return
	}
	delete(sp.children, key)
	d.add(sp.referencing[key])
}

func (sp *space) putOutput(name string, fact *outputFact, d *dirty) {
	if before := sp.outputs[name]; before != nil && before.owner != fact.owner {
		d.template(sp, before.owner.Name)
	}
	sp.outputs[name] = fact
	d.template(sp, fact.owner.Name)
}

func (sp *space) removeOutput(name string, d *dirty) {
	if before := sp.outputs[name]; before != nil {
		delete(sp.outputs, name)
		d.template(sp, before.owner.Name)
	}
}

func (sp *space) putChild(c *child, d *dirty) {
	key := childKey{c.Kind, c.Name}
	sp.children[key] = c
	for _, name := range sp.referencing[key] {
		delete(sp.retained[name].gone, key)
	}
	d.add(sp.referencing[key])
}

// removeChild believes a stream that an object is gone, for those who
// referenced it while it was there.
func (sp *space) removeChild(key childKey, d *dirty) {
	delete(sp.children, key)
	for _, name := range sp.referencing[key] {
		sp.retained[name].lack(key)
	}
	d.add(sp.referencing[key])
}

func (sp *space) putRetained(name string, fact *retainedFact, d *dirty) {
	r := &retained{retainedFact: fact}
	if before := sp.retained[name]; before != nil && before.UID == fact.UID {
		// Content checksums belong to bytes, so they stay true. What is gone is
		// asked again where references changed: it may have come since.
		r.compositions, r.view = before.compositions, before.view
		if slices.Equal(before.references, fact.references) {
			r.gone = before.gone
		}
	}
	sp.unlink(name)
	sp.shareLabels(fact)
	sp.retained[name] = r
	for _, key := range fact.references {
		if !slices.Contains(sp.referencing[key], name) {
			sp.referencing[key] = append(sp.referencing[key], name)
		}
	}
	link(sp.ofTemplate, fact.templateName, name)
	d.checkpoints[name] = struct{}{}
	d.templates[fact.templateName] = struct{}{}
}

// shareLabels lets checkpoints of one template, which have the same labels, have
// one map of them: a map takes more memory than all that is in this one.
func (sp *space) shareLabels(fact *retainedFact) {
	for other := range sp.ofTemplate[fact.templateName] {
		if known := sp.retained[other].labels; maps.Equal(known, fact.labels) {
			fact.labels = known
		}
		return
	}
}

func (sp *space) removeRetained(name string, d *dirty) {
	before := sp.retained[name]
	if before == nil {
		return
	}
	sp.unlink(name)
	delete(sp.retained, name)
	d.checkpoints[name] = struct{}{}
	d.templates[before.templateName] = struct{}{}
}

// unlink takes a checkpoint out of the indexes, and drops borrowed children
// that nobody references any more, since no stream will.
func (sp *space) unlink(name string) {
	before := sp.retained[name]
	if before == nil {
		return
	}
	for _, key := range before.references {
		unreference(sp.referencing, key, name)
		if c := sp.children[key]; c != nil && c.borrowed && len(sp.referencing[key]) == 0 {
			delete(sp.children, key)
		}
	}
	unlink(sp.ofTemplate, before.templateName, name)
}

func link[K comparable](index map[K]names, key K, name string) {
	if index[key] == nil {
		index[key] = names{}
	}
	index[key][name] = struct{}{}
}

func unlink[K comparable](index map[K]names, key K, name string) {
	delete(index[key], name)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}

// everything marks all there is.
func (d *dirty) everything(sp *space) {
	for name := range sp.templates {
		d.templates[name] = struct{}{}
	}
	for name := range sp.retained {
		d.checkpoints[name] = struct{}{}
	}
}

func unreference(index map[childKey][]string, key childKey, name string) {
	if left := slices.DeleteFunc(index[key], func(n string) bool { return n == name }); len(left) > 0 {
		index[key] = left
		return
	}
	delete(index, key)
}
