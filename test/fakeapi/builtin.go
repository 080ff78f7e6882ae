package fakeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"
)

// builtIn describes a resource of the real server's own. The strategies hold
// the rules that our code can meet, not all of them: see the package comment.
type builtIn struct {
	kind           string
	gvr            schema.GroupVersionResource
	singular       string
	shortNames     []string
	rules          rules
	status         *rules
	graceful       func(object runtime.Object, options *metav1.DeleteOptions) bool
	fields         func(o *stored) fields.Set
	createOnUpdate bool
	unconditional  bool
	returnsDeleted bool
}

// rules are a strategy's own parts; a nil one does nothing.
type rules struct {
	prepareCreate  func(object runtime.Object)
	prepareUpdate  func(object, old runtime.Object)
	validate       func(object runtime.Object) field.ErrorList
	validateUpdate func(object, old runtime.Object) field.ErrorList
}

// coreStrategy turns a description into what the registry's functions ask for.
type coreStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	of    builtIn
	rules rules
}

func (coreStrategy) NamespaceScoped() bool                                            { return true }
func (coreStrategy) Canonicalize(runtime.Object)                                      {}
func (s coreStrategy) AllowCreateOnUpdate(context.Context) bool                       { return s.of.createOnUpdate }
func (s coreStrategy) AllowUnconditionalUpdate(context.Context) bool                  { return s.of.unconditional }
func (coreStrategy) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (coreStrategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string { return nil }

func (s coreStrategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if s.rules.prepareCreate != nil {
		s.rules.prepareCreate(object)
	}
}

func (s coreStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if s.rules.prepareUpdate != nil {
		s.rules.prepareUpdate(object, old)
	}
}

func (s coreStrategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	return s.rules.validate(object)
}

func (s coreStrategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	errs := s.rules.validate(object)
	if s.rules.validateUpdate != nil {
		errs = append(errs, s.rules.validateUpdate(object, old)...)
	}
	return errs
}

// gracefulStrategy is that of pods.
type gracefulStrategy struct{ coreStrategy }

func (s gracefulStrategy) CheckGracefulDelete(_ context.Context, object runtime.Object, options *metav1.DeleteOptions) bool {
	return s.of.graceful(object, options)
}

func builtInKinds() ([]*kind, error) {
	core := func(resource string) schema.GroupVersionResource {
		return corev1.SchemeGroupVersion.WithResource(resource)
	}
	described := []builtIn{
		{
			kind: "Lease", gvr: coordinationv1.SchemeGroupVersion.WithResource("leases"), singular: "lease",
			rules: leaseRules, createOnUpdate: true,
		},
		{
			kind: "Pod", gvr: core("pods"), singular: "pod", shortNames: []string{"po"},
			rules: podRules, status: &podStatusRules, graceful: podGracePeriod, fields: podFields,
			unconditional: true, returnsDeleted: true,
		},
		{
			kind: "Secret", gvr: core("secrets"), singular: "secret",
			rules: secretRules, fields: secretFields, unconditional: true,
		},
		{
			kind: "ConfigMap", gvr: core("configmaps"), singular: "configmap", shortNames: []string{"cm"},
			rules: configMapRules, unconditional: true,
		},
		{
			kind: "Event", gvr: core("events"), singular: "event", shortNames: []string{"ev"},
			rules: eventRules, fields: eventFields, createOnUpdate: true, unconditional: true,
		},
	}
	all := make([]*kind, 0, len(described))
	converter := builtInConverter()
	for _, d := range described {
		k := d.toKind()
		if err := manageFields(k, converter); err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

func (d builtIn) toKind() *kind {
	gvk := d.gvr.GroupVersion().WithKind(d.kind)
	base := coreStrategy{ObjectTyper: scheme.Scheme, NameGenerator: names.SimpleNameGenerator, of: d, rules: d.rules}
	k := &kind{
		gvr: d.gvr, gvk: gvk, returnsDeleted: d.returnsDeleted, strategy: base, fields: d.fields,
		api: metav1.APIResource{
			Name: d.gvr.Resource, SingularName: d.singular, Namespaced: true, Kind: d.kind, ShortNames: d.shortNames,
		},
		keyPrefix: "/registry/" + d.gvr.Resource + "/",
		itemHead:  fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, gvk.Kind, gvk.GroupVersion()),
	}
	if d.graceful != nil {
		k.strategy = gracefulStrategy{base}
	}
	if d.status != nil {
		k.hasStatus = true
		k.statusStrategy = coreStrategy{ObjectTyper: scheme.Scheme, of: d, rules: *d.status}
	}
	k.empty = func() runtime.Object {
		object, err := scheme.Scheme.New(gvk)
		if err != nil {
			panic(fmt.Errorf("making a %s: %w", gvk, err))
		}
		object.GetObjectKind().SetGroupVersionKind(gvk)
		return object
	}
	if d.fields != nil {
		k.fieldNames = map[string]bool{}
		for name := range d.fields(&stored{kind: k, object: k.empty()}) {
			k.fieldNames[name] = true
		}
	}
	k.decode = func(body []byte) (runtime.Object, error) { return decodeBuiltIn(k, body) }
	return k
}

// decodeBuiltIn drops unknown fields, as decoding to a Go type does. A missing
// kind is the path's.
func decodeBuiltIn(k *kind, body []byte) (runtime.Object, error) {
	object := k.empty()
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, apierrors.NewBadRequest(errors.New("EOF").Error())
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(body, object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", k.gvk.Kind, k.gvk.Version, k.gvk.Kind, err))
	}
	if err := checkType(k, object.GetObjectKind().GroupVersionKind()); err != nil {
		return nil, err
	}
	setDefaults(object)
	return object, nil
}
