package viewfeed

import (
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
	// referencing leads from a child to the checkpoints that reference it, and
	// ofTemplate from a template's name to its checkpoints.
	referencing map[childKey]names
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
	// gone are referenced children that are known not to exist.
	gone map[childKey]bool
	// checksums are content checksums by evidence: what a stream of those very
	// bytes gave.
	checksums map[string]string
	// order of the entries of checksums, oldest first.
	order []string

	// reading is what a stream of its bytes must find, while one is wanted.
	reading *reading
	// view shares its slices with the view in the cache.
	view *views.RetainedCheckpoint
}

func newSpace(namespace string) *space {
	return &space{
		namespace:   namespace,
		templates:   map[string]*templateFact{},
		outputs:     map[string]*outputFact{},
		leases:      map[string]*leaseFact{},
		children:    map[childKey]*child{},
		retained:    map[string]*retained{},
		referencing: map[childKey]names{},
		ofTemplate:  map[string]names{},
	}
}

// remember keeps the content checksum of a composition of bytes.
func (r *retained) remember(evidence, checksum string) {
	if _, known := r.checksums[evidence]; !known {
		r.order = append(r.order, evidence)
	}
	r.checksums[evidence] = checksum
	for len(r.order) > maxCompositions {
		delete(r.checksums, r.order[0])
		r.order = r.order[1:]
	}
}

// dirty is what a change made out of date, in one namespace.
type dirty struct {
	checkpoints names
	templates   names
}

func newDirty() *dirty { return &dirty{checkpoints: names{}, templates: names{}} }

func (d *dirty) add(checkpoints names) {
	for name := range checkpoints {
		d.checkpoints[name] = struct{}{}
	}
}

// template marks a template's intent and all its checkpoints.
func (d *dirty) template(sp *space, name string) {
	d.templates[name] = struct{}{}
	d.add(sp.ofTemplate[name])
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
	for name := range sp.referencing[key] {
		delete(sp.retained[name].gone, key)
	}
	d.add(sp.referencing[key])
}

// removeChild believes a stream that an object is gone, for those who
// referenced it while it was there.
func (sp *space) removeChild(key childKey, d *dirty) {
	delete(sp.children, key)
	for name := range sp.referencing[key] {
		sp.retained[name].gone[key] = true
	}
	d.add(sp.referencing[key])
}

func (sp *space) putRetained(name string, fact *retainedFact, d *dirty) {
	r := &retained{retainedFact: fact, gone: map[childKey]bool{}, checksums: map[string]string{}}
	if before := sp.retained[name]; before != nil && before.UID == fact.UID {
		// Content checksums belong to bytes, so they stay true. What is gone is
		// asked again where references changed: it may have come since.
		r.checksums, r.order = before.checksums, before.order
		if slices.Equal(before.references, fact.references) {
			r.gone = before.gone
		}
	}
	sp.unlink(name)
	sp.retained[name] = r
	for _, key := range fact.references {
		link(sp.referencing, key, name)
	}
	link(sp.ofTemplate, fact.templateName, name)
	d.checkpoints[name] = struct{}{}
	d.templates[fact.templateName] = struct{}{}
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
		unlink(sp.referencing, key, name)
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
