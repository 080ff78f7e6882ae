package render

import "fmt"

// frame is one snippet or file while it is rendered.
type frame struct {
	number int
	needs  []need
	deep   int
	// fleeting says that its text must be made anew in every render: making it does
	// something else too, or it holds what is secret.
	fleeting bool
}

func (r *run) begin() {
	r.frameCount++
	r.frames = append(r.frames, &frame{number: r.frameCount})
}

func (r *run) end() *frame {
	ended := r.innermost()
	r.frames = r.frames[:len(r.frames)-1]
	return ended
}

func (r *run) innermost() *frame { return r.frames[len(r.frames)-1] }

// need notes what the innermost frame has read.
func (r *run) need(n need) {
	if r.memory != nil {
		f := r.innermost()
		f.needs = append(f.needs, n)
	}
}

// absorb has the innermost frame need what another did.
func (r *run) absorb(f *frame) {
	last := r.innermost()
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
	if r.depth++; r.depth > maxIncludeDepth {
		return nil, fmt.Errorf("includes are nested deeper than %d", maxIncludeDepth)
	}
	defer func() { r.depth-- }()
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
	f := r.innermost()
	f.needs, f.deep = append(f.needs, neededText{e}), max(f.deep, e.deep+1)
}
