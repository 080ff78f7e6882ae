package render

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"text/template"
)

// errChanges ends a render that remembers when a template sets out to change a
// value that it did not make. The render is done again, on copies.
var errChanges = errors.New("the template changes a value that it did not make")

// made notes that the innermost frame made the value, if it can be changed.
func (r *run) made(value any) {
	if d, ok := value.(map[string]any); ok && d != nil && r.memory != nil {
		r.makers[reflect.ValueOf(d).Pointer()] = maker{frame: r.innermost().number, dict: d}
	}
}

// maker is the frame that made a dict, which is held so that no other takes its
// address.
type maker struct {
	frame int
	dict  map[string]any
}

// change is asked before a dict changes. The frames above the one that made it
// do more by that than giving a text.
func (r *run) change(d map[string]any) error {
	if r.memory == nil {
		return nil
	}
	m, ok := r.makers[reflect.ValueOf(d).Pointer()]
	at := slices.IndexFunc(r.frames, func(f *frame) bool { return f.number == m.frame })
	if !ok || at < 0 {
		return r.changeAnything()
	}
	for _, f := range r.frames[at+1:] {
		f.fleeting = true
	}
	return nil
}

// changeAnything is asked before something changes of which nobody knows who made it.
func (r *run) changeAnything() error {
	if r.memory == nil {
		return nil
	}
	r.memory.changes = true
	return errChanges
}

// dictFunctions are the functions that make dicts and change them.
func (r *run) dictFunctions() template.FuncMap {
	fixed := fixedFunctions()
	out := r.makingFunctions(fixed)
	maps.Copy(out, r.mergingFunctions(fixed))
	out["set"] = func(d map[string]any, key string, value any) (map[string]any, error) {
		if err := r.change(d); err != nil {
			return nil, err
		}
		d[key] = value
		return d, nil
	}
	out["unset"] = func(d map[string]any, key string) (map[string]any, error) {
		if err := r.change(d); err != nil {
			return nil, err
		}
		delete(d, key)
		return d, nil
	}
	return out
}

func (r *run) makingFunctions(fixed template.FuncMap) template.FuncMap {
	out := template.FuncMap{}
	dict := fixed["dict"].(func(...any) map[string]any)
	out["dict"] = func(pairs ...any) map[string]any {
		d := dict(pairs...)
		r.made(d)
		return d
	}
	for _, name := range []string{"omit", "pick"} {
		part := fixed[name].(func(map[string]any, ...string) map[string]any)
		out[name] = func(d map[string]any, keys ...string) map[string]any {
			p := part(d, keys...)
			r.made(p)
			return p
		}
	}
	for _, name := range []string{"fromJson", "mustFromJson"} {
		out[name] = func(text string) (any, error) {
			value, err := fromJSON(text)
			r.made(value)
			return value, err
		}
	}
	deepCopy := fixed["mustDeepCopy"].(func(any) (any, error))
	for _, name := range []string{"deepCopy", "mustDeepCopy"} {
		out[name] = func(value any) (any, error) {
			made, err := deepCopy(value)
			r.made(made)
			return made, err
		}
	}
	return out
}

// mergingFunctions remember nothing: what is merged into may hold parts of what was
// merged before.
func (r *run) mergingFunctions(fixed template.FuncMap) template.FuncMap {
	out := template.FuncMap{}
	for _, name := range []string{"merge", "mergeOverwrite"} {
		merge := fixed[name].(func(map[string]any, ...map[string]any) any)
		out[name] = func(d map[string]any, others ...map[string]any) (any, error) {
			if err := r.changeAnything(); err != nil {
				return nil, err
			}
			return merge(d, others...), nil
		}
	}
	for _, name := range []string{"mustMerge", "mustMergeOverwrite"} {
		merge := fixed[name].(func(map[string]any, ...map[string]any) (any, error))
		out[name] = func(d map[string]any, others ...map[string]any) (any, error) {
			if err := r.changeAnything(); err != nil {
				return nil, err
			}
			return merge(d, others...)
		}
	}
	return out
}
