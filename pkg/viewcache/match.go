package viewcache

import (
	"errors"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Match says which objects a request is about. The zero value matches all.
type Match struct {
	// Namespace limits the request to one namespace unless empty.
	Namespace string
	labels    labels.Selector
	fields    fields.Selector
}

var errSharded = errors.New("shard selectors are not supported")

// MatchFor returns what a list or watch request asks for. It refuses a
// selector that would otherwise be ignored.
func MatchFor(namespace string, opts *metainternalversion.ListOptions) (Match, error) {
	match := Match{Namespace: namespace}
	if opts == nil {
		return match, nil
	}
	if opts.ShardSelector != "" {
		return match, errSharded
	}
	if opts.LabelSelector != nil && !opts.LabelSelector.Empty() {
		match.labels = opts.LabelSelector
	}
	if opts.FieldSelector != nil && !opts.FieldSelector.Empty() {
		match.fields = opts.FieldSelector
	}
	return match, nil
}

// knows returns an error for a field that no object of the cache has. An
// unknown field would match nothing and look like an empty answer.
func (m Match) knows(known fields.Set) error {
	if m.fields == nil {
		return nil
	}
	for _, requirement := range m.fields.Requirements() {
		if !known.Has(requirement.Field) {
			return fmt.Errorf("field label not supported: %s", requirement.Field)
		}
	}
	return nil
}

func (m Match) matches(obj metav1.Object, fieldsOf func() fields.Set) bool {
	if m.Namespace != "" && obj.GetNamespace() != m.Namespace {
		return false
	}
	if m.labels != nil && !m.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return m.fields == nil || m.fields.Matches(fieldsOf())
}
