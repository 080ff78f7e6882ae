package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	shared map[string]any
	// walking are the marks of the ranges under way with the values they walk.
	walking []walked
	depth   int
	// collects is true while the configuration itself is rendered.
	collects bool
	backends []*emitted
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
	return template.FuncMap{
		enterFunction: r.enter,
		leaveFunction: r.leave,
		"backend":     r.backend,
		"certPath":    r.path(certsFolder),
		"certificate": r.certificate,
		"filePath":    r.path(filesFolder),
		"http":        r.document,
		"include":     r.include,
		"lookup":      func(name string, values ...any) ([]any, error) { return r.view.lookup(name, values...) },
		"mapPath":     r.path(mapsFolder),
		"resource":    func(name, ns, object string) (any, error) { return r.view.get(name, ns, object) },
		"shared":      r.share,
		"resources":   func(name string) ([]any, error) { return r.view.list(name) },
	}
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

// document is the template function http: the text of a fetched document. It is
// empty for one that is not critical and was never fetched.
func (r *run) document(name string) (string, error) {
	text, ok := r.documents[name]
	if !ok {
		return "", fmt.Errorf("%q is not declared in httpResources", name)
	}
	return text, nil
}

// include renders a snippet into a text, which a pipe can indent.
func (r *run) include(name string, data ...any) (string, error) {
	if len(data) > 1 {
		return "", fmt.Errorf("include takes one value, got %d", len(data))
	}
	if r.depth++; r.depth > maxIncludeDepth {
		return "", fmt.Errorf("includes are nested deeper than %d", maxIncludeDepth)
	}
	defer func() { r.depth-- }()
	var value any
	if len(data) == 1 {
		value = data[0]
	}
	raw, err := r.execute(name, value)
	return string(raw), err
}

// share is the template function shared: the value of the JSON text that a
// snippet makes of the top-level values. It is made once for all files of a
// render, since what several files need is often what costs most.
func (r *run) share(name string) (any, error) {
	made, ok := r.shared[name]
	if !ok {
		collects := r.collects
		// A section made here would be missing where the value is used next.
		r.collects = false
		raw, err := r.include(name, runtime.DeepCopyJSON(r.values))
		r.collects = collects
		if err != nil {
			return nil, err
		}
		if made, err = fromJSON(raw); err != nil {
			return nil, fmt.Errorf("snippet %q gives no JSON: %w", name, err)
		}
		if r.shared == nil {
			r.shared = map[string]any{}
		}
		r.shared[name] = made
	}
	// Templates can change what they are given.
	return runtime.DeepCopyJSONValue(made), nil
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
	return r.execute(name, runtime.DeepCopyJSON(values))
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
