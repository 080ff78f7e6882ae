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

// view is a snapshot as one render sees it: sorted, and copied before a template
// gets hold of it, because sprig's set and merge change their arguments.
type view struct {
	snapshot Snapshot
	kinds    map[string]*kindView
}

type kindView struct {
	objects []any
	names   []objectName
	// keys holds per object and position of IndexBy the values found there.
	keys [][][]string
	// at finds objects by position of IndexBy and a value there.
	at []map[string][]int
}

type objectName struct{ namespace, name string }

func newView(s Snapshot) *view {
	return &view{snapshot: s, kinds: make(map[string]*kindView, len(s))}
}

func (v *view) kind(name string) (*kindView, error) {
	if found, ok := v.kinds[name]; ok {
		return found, nil
	}
	source, ok := v.snapshot[name]
	if !ok {
		return nil, fmt.Errorf("watched resource %q is not declared in watchedResources", name)
	}
	sorted := slices.Clone(source.Objects)
	slices.SortFunc(sorted, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(
			strings.Compare(a.GetNamespace(), b.GetNamespace()),
			strings.Compare(a.GetName(), b.GetName()),
		)
	})
	made := &kindView{
		objects: make([]any, 0, len(sorted)),
		names:   make([]objectName, 0, len(sorted)),
	}
	for _, o := range sorted {
		made.objects = append(made.objects, o.DeepCopy().Object)
		made.names = append(made.names, objectName{o.GetNamespace(), o.GetName()})
	}
	if err := made.index(name, source.IndexBy, sorted); err != nil {
		return nil, err
	}
	v.kinds[name] = made
	return made, nil
}

func (k *kindView) index(name string, paths []string, sorted []*unstructured.Unstructured) error {
	if len(paths) == 0 {
		return nil
	}
	parsed, err := parsePaths(name, paths)
	if err != nil {
		return err
	}
	k.at = make([]map[string][]int, len(parsed))
	for at := range k.at {
		k.at[at] = make(map[string][]int, len(sorted))
	}
	for i, o := range sorted {
		keys := make([][]string, len(parsed))
		for at, path := range parsed {
			found, err := path.FindResults(o.Object)
			if err != nil {
				return fmt.Errorf("watched resource %q: indexBy %q of %s/%s: %w", name, paths[at], o.GetNamespace(), o.GetName(), err)
			}
			for _, values := range found {
				for _, value := range values {
					if value.IsValid() && value.CanInterface() && value.Interface() != nil {
						keys[at] = append(keys[at], text(value.Interface()))
					}
				}
			}
		}
		k.keys = append(k.keys, keys)
		for at := range keys {
			slices.Sort(keys[at])
			keys[at] = slices.Compact(keys[at])
			for _, key := range keys[at] {
				k.at[at][key] = append(k.at[at][key], i)
			}
		}
	}
	return nil
}

// parsePaths reads indexBy expressions, with or without kubectl's braces.
func parsePaths(name string, paths []string) ([]*jsonpath.JSONPath, error) {
	parsed := make([]*jsonpath.JSONPath, 0, len(paths))
	for _, path := range paths {
		expression := strings.TrimSpace(path)
		if !strings.HasPrefix(expression, "{") {
			expression = "{." + strings.TrimPrefix(expression, ".") + "}"
		}
		p := jsonpath.New(name).AllowMissingKeys(true)
		if err := p.Parse(expression); err != nil {
			return nil, invalid("", "watched resource %q: indexBy %q: %w", name, path, err)
		}
		parsed = append(parsed, p)
	}
	return parsed, nil
}

// list is the template function resources.
func (v *view) list(name string) ([]any, error) {
	k, err := v.kind(name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(k.objects), nil
}

// get is the template function resource. What is not there is nil, so that a
// template can ask with "with".
func (v *view) get(name, namespace, object string) (any, error) {
	k, err := v.kind(name)
	if err != nil {
		return nil, err
	}
	want := objectName{namespace, object}
	at, found := slices.BinarySearchFunc(k.names, want, func(a, b objectName) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	if !found {
		return nil, nil
	}
	return k.objects[at], nil
}

// lookup is the template function of that name: objects whose values at the
// first positions of indexBy are the given ones, in order of the whole list.
func (v *view) lookup(name string, values ...any) ([]any, error) {
	k, err := v.kind(name)
	if err != nil {
		return nil, err
	}
	paths := v.snapshot[name].IndexBy
	if len(values) == 0 || len(values) > len(paths) {
		return nil, fmt.Errorf("lookup of %q takes 1 to %d values, as indexBy has, and got %d", name, len(paths), len(values))
	}
	wanted := make([]string, len(values))
	// The rarest value is looked up and the others are compared, so that a
	// namespace with thousands of objects costs no more than one with few.
	rarest := 0
	for at, value := range values {
		wanted[at] = text(value)
		if len(k.at[at][wanted[at]]) < len(k.at[rarest][wanted[rarest]]) {
			rarest = at
		}
	}
	out := []any{}
	for _, i := range k.at[rarest][wanted[rarest]] {
		matches := true
		for at := 0; at < len(wanted) && matches; at++ {
			matches = slices.Contains(k.keys[i][at], wanted[at])
		}
		if matches {
			out = append(out, k.objects[i])
		}
	}
	return out, nil
}

// text is a value as an index knows it.
func text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	return fmt.Sprint(value)
}
