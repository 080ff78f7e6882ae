package render

import "fmt"

// read has the render remember what was read, and gives it to the template.
func (r *run) read(n need, objects []*input) []any {
	out := make([]any, 0, len(objects))
	secret := false
	for _, o := range objects {
		out = append(out, o.value)
		secret = secret || o.secret
	}
	r.need(n)
	if secret {
		// A text with a key in it is not to be kept beyond the output.
		r.fleet()
	}
	return out
}

// list is the template function resources.
func (r *run) list(name string) ([]any, error) {
	k, err := r.view.kind(name)
	if err != nil {
		return nil, err
	}
	return r.read(&neededList{name, k.objects}, k.objects), nil
}

// get is the template function resource. What is not there is nil, so that a
// template can ask with "with".
func (r *run) get(name, namespace, object string) (any, error) {
	k, err := r.view.kind(name)
	if err != nil {
		return nil, err
	}
	want := objectName{namespace, object}
	found := k.get(want)
	n := &neededObject{name, want, found}
	if found == nil {
		r.need(n)
		return nil, nil
	}
	return r.read(n, []*input{found})[0], nil
}

// lookup is the template function of that name.
func (r *run) lookup(name string, values ...any) ([]any, error) {
	k, err := r.view.kind(name)
	if err != nil {
		return nil, err
	}
	if len(values) == 0 || len(values) > len(k.at) {
		return nil, fmt.Errorf("lookup of %q takes 1 to %d values, as indexBy has, and got %d", name, len(k.at), len(values))
	}
	wanted := make([]string, len(values))
	for at, value := range values {
		wanted[at] = text(value)
	}
	found := k.lookup(wanted)
	return r.read(&neededLookup{name, wanted, found}, found), nil
}

// document is the template function http: the text of a fetched document. It is
// empty for one that is not critical and was never fetched.
func (r *run) document(name string) (string, error) {
	text, ok := r.documents[name]
	if !ok {
		return "", fmt.Errorf("%q is not declared in httpResources", name)
	}
	r.need(&neededDocument{name, text})
	return text, nil
}
