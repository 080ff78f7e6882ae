package render

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"text/template"
)

// frame is one snippet or file while it is rendered.
type frame struct {
	number int
	needs  []need
	deep   int
	// fleeting says that its text must be made anew in every render: making it does
	// something else too, or it holds what is secret.
	fleeting bool
}

// errChanges ends a render that remembers when a template sets out to change a
// value that it did not make. The render is done again, on copies.
var errChanges = errors.New("the template changes a value that it did not make")

func (r *run) begin() {
	r.frameCount++
	r.frames = append(r.frames, &frame{number: r.frameCount})
}

func (r *run) end() *frame {
	last := len(r.frames) - 1
	ended := r.frames[last]
	r.frames = r.frames[:last]
	return ended
}

// need notes what the innermost frame has read.
func (r *run) need(n need) {
	if r.memory != nil && len(r.frames) > 0 {
		f := r.frames[len(r.frames)-1]
		f.needs = append(f.needs, n)
	}
}

// absorb has the innermost frame need what another did.
func (r *run) absorb(f *frame) {
	if f == nil || len(r.frames) == 0 {
		return
	}
	last := r.frames[len(r.frames)-1]
	last.needs = append(last.needs, f.needs...)
	last.deep = max(last.deep, f.deep)
	if f.fleeting {
		r.fleet()
	}
}

// fleet says that nothing under way may be remembered.
func (r *run) fleet() {
	for _, f := range r.frames {
		f.fleeting = true
	}
}

// snippet renders a template for a value, unless its text is known.
func (r *run) snippet(name string, value any) (*remembered, error) {
	if r.memory == nil {
		raw, err := r.execute(name, value)
		return &remembered{text: string(raw)}, err
	}
	key, known := keyOf(name, value)
	if known {
		if e := r.recall(key); e != nil && r.depth+e.deep <= maxIncludeDepth {
			r.use(e)
			return e, nil
		}
	}
	r.begin()
	raw, err := r.execute(name, value)
	f := r.end()
	if err != nil {
		return nil, err
	}
	e := &remembered{key: key, text: string(raw), needs: f.needs, deep: f.deep, checked: r.number, good: true}
	if known && !f.fleeting {
		r.texts[key] = e
		r.use(e)
		return e, nil
	}
	f.deep++
	r.absorb(f)
	return e, nil
}

// use notes that the innermost frame holds a remembered text.
func (r *run) use(e *remembered) {
	if len(r.frames) > 0 {
		f := r.frames[len(r.frames)-1]
		f.needs, f.deep = append(f.needs, neededText{e}), max(f.deep, e.deep+1)
	}
}

// made notes that the innermost frame made the value, if it can be changed.
func (r *run) made(value any) {
	if d, ok := value.(map[string]any); ok && d != nil && r.memory != nil {
		r.makers[reflect.ValueOf(d).Pointer()] = maker{frame: r.frames[len(r.frames)-1].number, dict: d}
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
		r.memory.changes = true
		return errChanges
	}
	for _, f := range r.frames[at+1:] {
		f.fleeting = true
	}
	return nil
}

// changing are the functions that make dicts and change them.
func (r *run) changing() template.FuncMap {
	fixed := fixedFunctions()
	makeDict := fixed["dict"].(func(...any) map[string]any)
	out := template.FuncMap{
		"dict": func(pairs ...any) map[string]any {
			d := makeDict(pairs...)
			r.made(d)
			return d
		},
		"set": func(d map[string]any, key string, value any) (map[string]any, error) {
			if err := r.change(d); err != nil {
				return nil, err
			}
			d[key] = value
			return d, nil
		},
		"unset": func(d map[string]any, key string) (map[string]any, error) {
			if err := r.change(d); err != nil {
				return nil, err
			}
			delete(d, key)
			return d, nil
		},
	}
	for _, name := range []string{"fromJson", "mustFromJson"} {
		out[name] = func(text string) (any, error) {
			value, err := fromJSON(text)
			r.made(value)
			return value, err
		}
	}
	// What is merged into may hold parts of what was merged before.
	for _, name := range []string{"merge", "mergeOverwrite"} {
		merge := fixed[name].(func(map[string]any, ...map[string]any) any)
		out[name] = func(d map[string]any, others ...map[string]any) (any, error) {
			if r.memory != nil {
				r.memory.changes = true
				return nil, errChanges
			}
			return merge(d, others...), nil
		}
	}
	for _, name := range []string{"mustMerge", "mustMergeOverwrite"} {
		merge := fixed[name].(func(map[string]any, ...map[string]any) (any, error))
		out[name] = func(d map[string]any, others ...map[string]any) (any, error) {
			if r.memory != nil {
				r.memory.changes = true
				return nil, errChanges
			}
			return merge(d, others...)
		}
	}
	return out
}

// textKey tells one snippet with one value from every other.
type textKey [sha256.Size]byte

// maxKeyDepth ends values that hold themselves.
const maxKeyDepth = 64

// keyOf is false for a value of types that templates hardly make.
func keyOf(name string, value any) (textKey, bool) {
	raw := binary.AppendUvarint(make([]byte, 0, 256), uint64(len(name)))
	raw, ok := appendValue(append(raw, name...), value, maxKeyDepth)
	return sha256.Sum256(raw), ok
}

// appendValue writes a value so that no two read the same: a type, and a length
// where that is not part of the type.
func appendValue(to []byte, value any, depth int) ([]byte, bool) {
	if depth == 0 {
		return to, false
	}
	text := func(kind byte, s string) {
		to = binary.AppendUvarint(append(to, kind), uint64(len(s)))
		to = append(to, s...)
	}
	ok := true
	switch v := value.(type) {
	case nil:
		to = append(to, 0)
	case bool:
		kind := byte(1)
		if v {
			kind = 2
		}
		to = append(to, kind)
	case int:
		to = binary.AppendVarint(append(to, 3), int64(v))
	case int64:
		to = binary.AppendVarint(append(to, 4), v)
	case float64:
		to = binary.BigEndian.AppendUint64(append(to, 5), math.Float64bits(v))
	case string:
		text(6, v)
	case []any:
		to = binary.AppendUvarint(append(to, 7), uint64(len(v)))
		for i := 0; ok && i < len(v); i++ {
			to, ok = appendValue(to, v[i], depth-1)
		}
	case map[string]any:
		to = binary.AppendUvarint(append(to, 8), uint64(len(v)))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text(6, key)
			if to, ok = appendValue(to, v[key], depth-1); !ok {
				break
			}
		}
	case []string:
		to = binary.AppendUvarint(append(to, 9), uint64(len(v)))
		for _, s := range v {
			text(6, s)
		}
	default:
		ok = false
	}
	return to, ok
}
