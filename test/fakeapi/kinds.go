package fakeapi

import (
	"bytes"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/spec3"
)

// strategy is what the real server asks of a resource.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// kind is one served resource. It is shared by all servers of the process and
// never changed after loading.
type kind struct {
	gvr schema.GroupVersionResource
	gvk schema.GroupVersionKind
	api metav1.APIResource
	// keyPrefix is where etcd would hold the objects; messages name it.
	keyPrefix string
	hasStatus bool
	// returnsDeleted says that a deletion answers the object, not a Status.
	returnsDeleted bool
	strategy       strategy
	statusStrategy rest.RESTUpdateStrategy
	empty          func() runtime.Object
	decode         func(body []byte) (runtime.Object, error)
	managers       map[string]*managedfields.FieldManager
	// described is the kind in OpenAPI, of a custom resource only.
	described  *spec3.OpenAPI
	fields     func(o *stored) fields.Set
	fieldNames map[string]bool
	listHead   []byte
	// itemHead is what built-in objects carry alone but not in a list.
	itemHead []byte
}

func (k *kind) custom() bool { return k.itemHead == nil }

func (k *kind) path(namespace, name string) string {
	return k.keyPrefix + namespace + "/" + name
}

// finish computes what follows from the rest.
func (k *kind) finish() {
	if k.custom() {
		k.listHead = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"continue":"","resourceVersion":"`, k.gvk.GroupVersion(), k.gvk.Kind+"List")
	} else {
		k.listHead = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"`, k.gvk.Kind+"List", k.gvk.GroupVersion())
	}
}

func (k *kind) writeItem(body *bytes.Buffer, encoded []byte) {
	if k.itemHead != nil && bytes.HasPrefix(encoded, k.itemHead) {
		body.WriteByte('{')
		encoded = encoded[len(k.itemHead):]
	}
	body.Write(encoded)
}

func (k *kind) selectable(field string) bool {
	return field == "metadata.name" || field == "metadata.namespace" || k.fieldNames[field]
}

func (k *kind) unknownField(field string) string {
	if k.custom() {
		return "field label not supported: " + field
	}
	return fmt.Sprintf("%q is not a known field selector: only %q, %q", field, "metadata.name", "metadata.namespace")
}

func (k *kind) fieldsOf(o *stored) fields.Set {
	set := fields.Set{}
	if k.fields != nil {
		set = k.fields(o)
	}
	set["metadata.name"], set["metadata.namespace"] = o.meta.GetName(), o.meta.GetNamespace()
	return set
}

// bookmark is an object that carries a version only.
func (k *kind) bookmark(version string, annotations map[string]string) []byte {
	object := k.empty()
	accessor := object.(metav1.Object)
	accessor.SetResourceVersion(version)
	if annotations != nil {
		accessor.SetAnnotations(annotations)
	}
	encoded, err := marshal(object)
	if err != nil {
		panic(err)
	}
	return encoded
}

type kinds struct {
	all   []*kind
	byGVR map[schema.GroupVersionResource]*kind
	// descriptions are OpenAPI documents, by group and version.
	descriptions map[schema.GroupVersion][]byte
}

func (ks *kinds) find(group, version, resource string) *kind {
	return ks.byGVR[schema.GroupVersionResource{Group: group, Version: version, Resource: resource}]
}

// loadKinds reads the CRDs and builds all strategies, once per process: the
// compiled schemas are costly, and nothing in them changes.
var loadKinds = sync.OnceValue(func() *kinds {
	all, err := builtInKinds()
	if err != nil {
		panic(err)
	}
	custom, err := customKinds()
	if err != nil {
		panic(fmt.Errorf("loading our CRDs: %w", err))
	}
	ks := &kinds{all: append(all, custom...), byGVR: map[schema.GroupVersionResource]*kind{}}
	for _, k := range ks.all {
		k.finish()
		ks.byGVR[k.gvr] = k
	}
	if ks.descriptions, err = describe(custom); err != nil {
		panic(fmt.Errorf("describing our CRDs: %w", err))
	}
	return ks
})

func emptyCustom(gvk schema.GroupVersionKind) func() runtime.Object {
	return func() runtime.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
		u.SetGroupVersionKind(gvk)
		return u
	}
}
