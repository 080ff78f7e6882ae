package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"text/template"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// maxIncludeDepth ends templates that include themselves.
	maxIncludeDepth = 64
	// maxFileBytes bounds one rendered file. What the store takes is less still
	// and is judged later; this keeps a runaway template from taking the memory.
	maxFileBytes = 16 << 20

	enterFunction = "holdfastEnter"
	leaveFunction = "holdfastLeave"
)

// run is one render. It is used by one goroutine.
type run struct {
	ctx      context.Context
	set      *template.Template
	declared map[string]bool
	// documents are the fetched texts by name.
	documents map[string]string
	view      *view
	// values are the top-level values, and shared what snippets made of them.
	values map[string]any
	shared map[string]*sharedValue
	// memory is nil for a render that starts from copies of everything, and number
	// this render's. texts are those to be remembered after it.
	memory *memory
	number uint64
	texts  map[textKey]*remembered
	// frames are what is being rendered, the innermost last, and makers by address
	// the dicts they made.
	frames     []*frame
	frameCount int
	makers     map[uintptr]maker
	// walking are the marks of the ranges under way with the values they walk.
	walking []walked
	depth   int
	// collects is true while the configuration itself is rendered.
	collects     bool
	backends     []*emitted
	backendNames map[string]bool
	// added are the files whose names the data gave, addedAt their places by path.
	added   []added
	addedAt map[string]int
}

type walked struct {
	mark   string
	object string
}

// functions are those that need the render. Their names are known before there
// is one, because the parser asks for them.
func (r *run) functions() template.FuncMap {
	functions := template.FuncMap{
		enterFunction: r.enter,
		leaveFunction: r.leave,
		"backend":     r.backend,
		"certPath":    r.path(certsFolder),
		"certificate": r.certificate,
		"filePath":    r.path(filesFolder),
		"http":        r.document,
		"include":     r.include,
		"lookup":      r.lookup,
		"mapPath":     r.path(mapsFolder),
		"resource":    r.get,
		"shared":      r.share,
		"resources":   r.list,
	}
	maps.Copy(functions, r.dictFunctions())
	return functions
}

// path makes a helper that knows only declared files: a misspelt name would
// otherwise be found by HAProxy, or not, on every pod.
func (r *run) path(folder string) func(string) (string, error) {
	return func(name string) (string, error) {
		if !r.declared[folder+name] {
			return "", fmt.Errorf("%q is not declared in the template object", name)
		}
		return folder + name, nil
	}
}

// include renders a snippet into a text, which a pipe can indent.
func (r *run) include(name string, data ...any) (string, error) {
	if len(data) > 1 {
		return "", fmt.Errorf("include takes one value, got %d", len(data))
	}
	var value any
	if len(data) == 1 {
		value = data[0]
	}
	e, err := r.snippet(name, value)
	if err != nil {
		return "", err
	}
	return e.text, nil
}

// share is the template function shared: the value of the JSON text that a
// snippet makes of the top-level values. It is made once for all files of a
// render, since what several files need is often what costs most.
func (r *run) share(name string) (any, error) {
	s, ok := r.shared[name]
	if !ok {
		var err error
		if s, err = r.makeShared(name); err != nil {
			return nil, err
		}
		if r.shared == nil {
			r.shared = map[string]*sharedValue{}
		}
		r.shared[name] = s
	}
	if r.memory != nil {
		r.absorb(s.frame)
		return s.value, nil
	}
	// Templates can change what they are given.
	return runtime.DeepCopyJSONValue(s.value), nil
}

// sharedValue is a value, and what it was made from.
type sharedValue struct {
	value any
	frame *frame
}

func (r *run) makeShared(name string) (*sharedValue, error) {
	collects := r.collects
	// A section made here would be missing where the value is used next.
	r.collects = false
	defer func() { r.collects = collects }()
	r.begin()
	values := runtime.DeepCopyJSON(r.values)
	r.made(values)
	e, err := r.snippet(name, values)
	f := r.end()
	if err != nil {
		return nil, err
	}
	if !e.parsed {
		if e.value, err = fromJSON(e.text); err != nil {
			return nil, fmt.Errorf("snippet %q gives no JSON: %w", name, err)
		}
		e.parsed = true
	}
	return &sharedValue{value: e.value, frame: f}, nil
}

// execute renders one template with bounds on its size and its time.
func (r *run) execute(name string, value any) ([]byte, error) {
	found := r.set.Lookup(name)
	if found == nil {
		return nil, fmt.Errorf("there is no snippet %q", name)
	}
	out := &boundedBuffer{ctx: r.ctx}
	if err := found.Execute(out, value); err != nil {
		return nil, execError(name, r.object(), err)
	}
	return out.Bytes(), nil
}

// file renders a template that is a file. Each starts from values of its own,
// since templates can change what they are given.
func (r *run) file(name string, values map[string]any) ([]byte, error) {
	r.walking = r.walking[:0]
	r.begin()
	defer r.end()
	own := runtime.DeepCopyJSON(values)
	r.made(own)
	return r.execute(name, own)
}

// enter notes the value a range or with has just reached.
func (r *run) enter(mark string, value any) (string, error) {
	if err := r.ctx.Err(); err != nil {
		return "", timeout(err)
	}
	r.unwind(mark)
	r.walking = append(r.walking, walked{mark: mark, object: objectOf(value)})
	return "", nil
}

func (r *run) leave(mark string) string {
	r.unwind(mark)
	return ""
}

// unwind forgets the mark and whatever was entered after it. A mark that is
// not there changes nothing: the range had no elements.
func (r *run) unwind(mark string) {
	for i := len(r.walking) - 1; i >= 0; i-- {
		if r.walking[i].mark == mark {
			r.walking = r.walking[:i]
			return
		}
	}
}

// object is the innermost watched object that is being walked.
func (r *run) object() string {
	for i := len(r.walking) - 1; i >= 0; i-- {
		if r.walking[i].object != "" {
			return r.walking[i].object
		}
	}
	return ""
}

// objectOf names a value that looks like an object of the API.
func objectOf(value any) string {
	dict, ok := value.(map[string]any)
	if !ok {
		return ""
	}
	meta, ok := dict["metadata"].(map[string]any)
	if !ok {
		return ""
	}
	kind, _ := dict["kind"].(string)
	name, _ := meta["name"].(string)
	if kind == "" || name == "" {
		return ""
	}
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// boundedBuffer refuses what would be too much and what comes too late.
type boundedBuffer struct {
	bytes.Buffer
	ctx context.Context
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, timeout(err)
	}
	if b.Len()+len(p) > maxFileBytes {
		return 0, &Error{Reason: ReasonTooLarge, Err: fmt.Errorf("the output exceeds the limit of %d bytes", maxFileBytes)}
	}
	return b.Buffer.Write(p)
}

func timeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("rendering took longer than %s: %w", Timeout, err)
	}
	return err
}
