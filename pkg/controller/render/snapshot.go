package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// Kind is everything that is known of one watched resource. The objects are
// only read.
type Kind struct {
	// IndexBy are the JSONPath expressions by whose values objects are looked up.
	IndexBy []string
	Objects []*unstructured.Unstructured
}

// Snapshot is the whole input of a render, by the names that the template gives
// its watched resources.
type Snapshot map[string]Kind

// view is a snapshot as one render sees it, sorted.
type view struct {
	snapshot Snapshot
	kinds    map[string]*kindView
	// before are the kinds as the last render saw them. Without, templates get
	// copies, which they may change.
	before map[string]*kindView
}

type kindView struct {
	objects []*input
	// at finds objects by position of IndexBy and a value there.
	at []map[string][]*input
	// paths are what the objects are indexed by.
	paths []string
	// known finds objects by what they are made from.
	known map[*unstructured.Unstructured]*input
}

// input is one watched object, in the state that it is in.
type input struct {
	name objectName
	// keys holds per position of IndexBy the values found there.
	keys  [][]string
	value map[string]any
	// secret says that it is a Secret.
	secret bool
}

type objectName struct{ namespace, name string }

func (a objectName) compare(b objectName) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

func newView(s Snapshot, before map[string]*kindView) *view {
	return &view{snapshot: s, kinds: make(map[string]*kindView, len(s)), before: before}
}

func (v *view) kind(name string) (*kindView, error) {
	if found, ok := v.kinds[name]; ok {
		return found, nil
	}
	source, ok := v.snapshot[name]
	if !ok {
		return nil, fmt.Errorf("watched resource %q is not declared in watchedResources", name)
	}
	made := v.before[name]
	if made != nil && !slices.Equal(made.paths, source.IndexBy) {
		made = nil // a template and what it watches change one after the other
	}
	if !made.holds(source.Objects) {
		var err error
		if made, err = v.look(name, source, made); err != nil {
			return nil, err
		}
	}
	v.kinds[name] = made
	return made, nil
}

// holds reports that the objects are the very ones that were looked at before.
func (k *kindView) holds(objects []*unstructured.Unstructured) bool {
	if k == nil || len(k.known) != len(objects) {
		return false
	}
	return !slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return k.known[o] == nil })
}

// look sorts and indexes objects, of which some may be known.
func (v *view) look(name string, source Kind, before *kindView) (*kindView, error) {
	paths, err := parsePaths(name, source.IndexBy)
	if err != nil {
		return nil, err
	}
	made := &kindView{
		paths:   source.IndexBy,
		objects: make([]*input, 0, len(source.Objects)),
		known:   make(map[*unstructured.Unstructured]*input, len(source.Objects)),
	}
	for _, o := range source.Objects {
		var found *input
		if before != nil {
			found = before.known[o]
		}
		if found == nil {
			found = &input{name: objectName{o.GetNamespace(), o.GetName()}, value: o.Object, secret: o.GetKind() == "Secret"}
			if v.before == nil {
				// sprig's set and merge change their arguments.
				found.value = o.DeepCopy().Object
			}
			if found.keys, err = keysOf(o, paths); err != nil {
				return nil, fmt.Errorf("watched resource %q: %w", name, err)
			}
		}
		made.known[o] = found
		made.objects = append(made.objects, found)
	}
	slices.SortFunc(made.objects, func(a, b *input) int { return a.name.compare(b.name) })
	made.index(len(paths))
	return made, nil
}

func (k *kindView) index(paths int) {
	k.at = make([]map[string][]*input, paths)
	for at := range k.at {
		k.at[at] = make(map[string][]*input, len(k.objects))
		for _, o := range k.objects {
			for _, key := range o.keys[at] {
				k.at[at][key] = append(k.at[at][key], o)
			}
		}
	}
}

// keysOf are the different values of an object by path.
func keysOf(o *unstructured.Unstructured, paths []indexPath) ([][]string, error) {
	keys := make([][]string, len(paths))
	for at, path := range paths {
		found, err := path.FindResults(o.Object)
		if err != nil {
			return nil, fmt.Errorf("indexBy %q of %s/%s: %w", path.text, o.GetNamespace(), o.GetName(), err)
		}
		for _, values := range found {
			for _, value := range values {
				if value.IsValid() && value.CanInterface() && value.Interface() != nil {
					keys[at] = append(keys[at], text(value.Interface()))
				}
			}
		}
		slices.Sort(keys[at])
		keys[at] = slices.Compact(keys[at])
	}
	return keys, nil
}

// indexPath is one of indexBy.
type indexPath struct {
	*jsonpath.JSONPath
	text string
}

// parsePaths reads indexBy expressions, with or without kubectl's braces.
func parsePaths(name string, paths []string) ([]indexPath, error) {
	parsed := make([]indexPath, 0, len(paths))
	for _, path := range paths {
		expression := strings.TrimSpace(path)
		if !strings.HasPrefix(expression, "{") {
			expression = "{." + strings.TrimPrefix(expression, ".") + "}"
		}
		p := jsonpath.New(name).AllowMissingKeys(true)
		if err := p.Parse(expression); err != nil {
			return nil, invalid("", "watched resource %q: indexBy %q: %w", name, path, err)
		}
		parsed = append(parsed, indexPath{p, path})
	}
	return parsed, nil
}

// get finds an object, nil if there is none.
func (k *kindView) get(name objectName) *input {
	at, found := slices.BinarySearchFunc(k.objects, name, func(o *input, name objectName) int { return o.name.compare(name) })
	if !found {
		return nil
	}
	return k.objects[at]
}

// lookup finds the objects whose values at the first positions of indexBy are the
// given ones, in order of the whole list.
func (k *kindView) lookup(values []string) []*input {
	// The rarest value is looked up and the others are compared, so that a
	// namespace with thousands of objects costs no more than one with few.
	rarest := k.at[0][values[0]]
	for at, value := range values {
		if having := k.at[at][value]; len(having) < len(rarest) {
			rarest = having
		}
	}
	var out []*input
	for _, o := range rarest {
		matches := true
		for at := 0; at < len(values) && matches; at++ {
			matches = slices.Contains(o.keys[at], values[at])
		}
		if matches {
			out = append(out, o)
		}
	}
	return out
}

// text is a value as an index knows it.
func text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	return fmt.Sprint(value)
}
