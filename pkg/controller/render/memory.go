package render

import (
	"slices"
	"sync"
)

// memory is what the last render of a template found out, and what it needed for
// that, so that the next one does again only what other inputs ask for. Of
// thousands of routes one changes at a time.
//
// No library does this: what a snippet's text depends on is known only to the
// functions by which it read.
type memory struct {
	mu sync.Mutex // held by the render that uses it
	// changes says that the template changes values that others see too, for which
	// every render has to start from copies.
	changes bool
	// renders counts, to check each text once in a render.
	renders uint64
	kinds   map[string]*kindView
	texts   map[textKey]*remembered
}

func newMemory() *memory { return &memory{kinds: map[string]*kindView{}} }

// remembered is the text of one snippet for one value.
type remembered struct {
	key  textKey
	text string
	// value is the text's JSON, once asked for. It is only read.
	value  any
	parsed bool

	needs []need
	// deep is how many snippets within snippets it took.
	deep int
	// checked is the render in which good was found out.
	checked uint64
	good    bool
}

// need is something that was read, and what was found. Inputs are compared as such:
// a watch replaces an object that changed.
type need interface{ met(r *run) bool }

// holds reports that the text is what this render would make.
func (e *remembered) holds(r *run) bool {
	if e.checked == r.number {
		return e.good
	}
	e.checked, e.good = r.number, true
	for _, n := range e.needs {
		if !n.met(r) {
			e.good = false
			break
		}
	}
	return e.good
}

// recall finds the text of an earlier render, or of this one.
func (r *run) recall(key textKey) *remembered {
	if e := r.texts[key]; e != nil {
		return e
	}
	e := r.memory.texts[key]
	if e == nil || !e.holds(r) {
		return nil
	}
	r.keep(e)
	return e
}

// keep has the next render remember a text, and those that it is made of.
func (r *run) keep(e *remembered) {
	if r.texts[e.key] != nil {
		return
	}
	r.texts[e.key] = e
	for _, n := range e.needs {
		if part, ok := n.(neededText); ok {
			r.keep(part.remembered)
		}
	}
}

type neededText struct{ *remembered }

func (n neededText) met(r *run) bool { return n.holds(r) }

type neededList struct {
	kind    string
	objects []*input
}

func (n *neededList) met(r *run) bool {
	k, err := r.view.kind(n.kind)
	return err == nil && slices.Equal(k.objects, n.objects)
}

type neededLookup struct {
	kind    string
	values  []string
	objects []*input
}

func (n *neededLookup) met(r *run) bool {
	k, err := r.view.kind(n.kind)
	return err == nil && slices.Equal(k.lookup(n.values), n.objects)
}

type neededObject struct {
	kind   string
	name   objectName
	object *input // nil: there was none
}

func (n *neededObject) met(r *run) bool {
	k, err := r.view.kind(n.kind)
	return err == nil && k.get(n.name) == n.object
}

type neededDocument struct{ name, text string }

func (n *neededDocument) met(r *run) bool {
	text, ok := r.documents[n.name]
	return ok && text == n.text
}
