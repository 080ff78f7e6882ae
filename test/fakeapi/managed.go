package fakeapi

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// oneVersion stands for conversion: every kind is served in one version, and
// our code keeps the objects' types right by itself.
type oneVersion struct{}

func (oneVersion) Convert(_, _, _ any) error { return fmt.Errorf("nothing is ever converted") }

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (oneVersion) Default(runtime.Object) {}

// creator makes empty objects of one kind.
type creator func() runtime.Object

func (c creator) New(schema.GroupVersionKind) (runtime.Object, error) { return c(), nil }

// resetter is a strategy that names the fields it resets.
type resetter interface {
	GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set
}

// manageFields gives a kind its field managers, one per subresource.
func manageFields(k *kind, converter managedfields.TypeConverter) error {
	k.managers = map[string]*managedfields.FieldManager{}
	parts := map[string]any{"": k.strategy}
	if k.hasStatus {
		parts["status"] = k.statusStrategy
	}
	for subresource, strategy := range parts {
		var reset map[fieldpath.APIVersion]fieldpath.Filter
		if r, ok := strategy.(resetter); ok {
			reset = fieldpath.NewExcludeFilterSetMap(r.GetResetFields())
		}
		build := managedfields.NewDefaultFieldManager
		if k.custom() {
			build = managedfields.NewDefaultCRDFieldManager
		}
		manager, err := build(converter, oneVersion{}, oneVersion{}, creator(k.empty), k.gvk, k.gvk.GroupVersion(), subresource, reset)
		if err != nil {
			return fmt.Errorf("managing fields of %s: %w", k.gvk, err)
		}
		k.managers[subresource] = manager
	}
	return nil
}

func builtInConverter() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
}

// managerOf is who owns what a request writes: the named manager, or else the
// first part of the user agent.
func managerOf(r *request) string {
	if name := r.query.Get("fieldManager"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(r.userAgent, "/")
	kept, length := strings.Builder{}, 0
	for _, char := range name {
		if length += len(string(char)); length > metavalidation.FieldManagerMaxLength {
			break
		}
		if unicode.IsPrint(char) {
			kept.WriteRune(char)
		}
	}
	return kept.String()
}

// checkOptions validates a write's options as the real server does.
func checkOptions(r *request) error {
	var kind string
	var errs field.ErrorList
	manager := r.query.Get("fieldManager")
	switch r.Verb {
	case "create":
		kind, errs = "CreateOptions", metavalidation.ValidateCreateOptions(&metav1.CreateOptions{FieldManager: manager})
	case "update":
		kind, errs = "UpdateOptions", metavalidation.ValidateUpdateOptions(&metav1.UpdateOptions{FieldManager: manager})
	case "patch", "apply":
		options := &metav1.PatchOptions{FieldManager: manager}
		if text := r.query.Get("force"); text != "" {
			force := text == "true" || text == "1"
			options.Force = &force
		}
		kind, errs = "PatchOptions", metavalidation.ValidatePatchOptions(options, types.PatchType(r.mediaType))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	return nil
}

// track records in next's managedFields who changed what since live.
func (s *Server) track(r *request, live, next runtime.Object) error {
	if s.options.TrackFromApply {
		before, after := live.(metav1.Object), next.(metav1.Object)
		if len(before.GetManagedFields()) == 0 {
			after.SetManagedFields(nil)
			return nil
		}
	}
	if trackRenewal(r, live, next) {
		return nil
	}
	tracked := r.kind.managers[r.Subresource].UpdateNoErrors(live, next, managerOf(r))
	if tracked != next {
		return fmt.Errorf("the field manager replaced a %T", next)
	}
	return nil
}

// apply is server-side apply. An object that does not exist is created, but
// never through a subresource.
func (s *Server) apply(r *request) (answer, error) {
	old := s.find(r)
	if old == nil && r.Subresource != "" {
		return answer{}, notFound(r)
	}
	live := r.kind.empty()
	if old != nil {
		live = old.object.DeepCopyObject()
	}
	applied := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(r.Object, &applied.Object); err != nil {
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	force := r.query.Get("force") == "true" || r.query.Get("force") == "1"
	merged, err := r.kind.managers[r.Subresource].Apply(live, applied, managerOf(r), force)
	if err != nil {
		return answer{}, err
	}
	encoded, err := marshal(merged)
	if err != nil {
		return answer{}, err
	}
	// Through bytes, because a merge yields JSON values also for Go types, and
	// to meet defaults and pruning.
	next, err := r.kind.decode(encoded)
	if err != nil {
		return answer{}, err
	}
	accessor, err := meta.Accessor(next)
	if err != nil {
		return answer{}, err
	}
	return s.storeApplied(r, old, next, accessor)
}

func (s *Server) storeApplied(r *request, old *stored, next runtime.Object, accessor metav1.Object) (answer, error) {
	if old == nil && accessor.GetUID() != "" {
		return answer{}, apierrors.NewConflict(r.kind.gvr.GroupResource(), r.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", accessor.GetUID()))
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(r.Namespace, accessor); err != nil {
		return answer{}, err
	}
	if err := checkName(r, accessor); err != nil {
		return answer{}, err
	}
	if old != nil {
		return s.replace(r, old, next)
	}
	s.fillSystemFields(accessor)
	o, err := s.store(r, next, accessor)
	if err != nil {
		return answer{}, err
	}
	return object(http.StatusCreated, o), nil
}
