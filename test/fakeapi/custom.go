package fakeapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/yaml"
)

// customKinds serves every CRD of the manifests with the real server's own
// strategy for custom resources.
func customKinds() ([]*kind, error) {
	_, self, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("no path of the source is known")
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(self), "../../manifests/base/crd/*_*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no CRD found beside %s: %w", self, err)
	}
	var all []*kind
	for _, file := range files {
		crd, err := readCRD(file)
		if err != nil {
			return nil, err
		}
		for i := range crd.Spec.Versions {
			k, err := customKind(crd, &crd.Spec.Versions[i])
			if err != nil {
				return nil, fmt.Errorf("serving %s: %w", file, err)
			}
			all = append(all, k)
		}
	}
	return all, nil
}

func readCRD(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return crd, nil
}

func customKind(crd *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (*kind, error) {
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, internal, nil); err != nil {
		return nil, err
	}
	schemaOf, err := structural.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	names := crd.Spec.Names
	k := &kind{
		gvr: schema.GroupVersionResource{Group: crd.Spec.Group, Version: version.Name, Resource: names.Plural},
		gvk: schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: names.Kind},
		api: metav1.APIResource{
			Name: names.Plural, SingularName: names.Singular, Namespaced: true, Kind: names.Kind,
			ShortNames: names.ShortNames, Categories: names.Categories,
		},
	}
	k.keyPrefix = "/registry/" + crd.Spec.Group + "/" + names.Plural + "/"
	k.empty = emptyCustom(k.gvk)
	k.decode = func(body []byte) (kuberuntime.Object, error) { return decodeCustom(k, schemaOf, body) }
	var status *apiextensions.CustomResourceSubresourceStatus
	var statusValidator validation.SchemaValidator
	if version.Subresources != nil && version.Subresources.Status != nil {
		k.hasStatus, status = true, &apiextensions.CustomResourceSubresourceStatus{}
		if part, ok := internal.OpenAPIV3Schema.Properties["status"]; ok {
			if statusValidator, _, err = validation.NewSchemaValidator(&part); err != nil {
				return nil, err
			}
		}
	}
	made := customresource.NewStrategy(typer{}, true, k.gvk, validator, statusValidator, schemaOf, status, nil, version.SelectableFields)
	k.strategy, k.statusStrategy = made, customresource.NewStatusStrategy(made)
	if k.described, err = builder.BuildOpenAPIV3(crd, version.Name, builder.Options{}); err != nil {
		return nil, fmt.Errorf("describing %s: %w", crd.Name, err)
	}
	// It knows lists that are maps, and what is atomic, from the description.
	converter, err := managedfields.NewTypeConverter(k.described.Components.Schemas, crd.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, err
	}
	return k, manageFields(k, converter)
}

// typer knows the kind of an unstructured object from itself.
type typer struct{}

func (typer) ObjectKinds(object kuberuntime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{object.GetObjectKind().GroupVersionKind()}, false, nil
}

func (typer) Recognizes(schema.GroupVersionKind) bool { return true }

// decodeCustom reads a body as the real server does: defaults first, then
// pruning of whatever the schema does not know.
func decodeCustom(k *kind, s *structural.Structural, body []byte) (kuberuntime.Object, error) {
	tree := map[string]any{}
	if err := utiljson.Unmarshal(body, &tree); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v", k.gvk.Kind, err))
	}
	if name, _ := tree["kind"].(string); name == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
			k.gvk.Kind, kuberuntime.NewMissingKindErr(string(body)), summary(body)))
	}
	u := &unstructured.Unstructured{Object: tree}
	if version, _ := tree["apiVersion"].(string); version != k.gvk.GroupVersion().String() {
		return nil, wrongVersion(k, version)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(tree, s)
	defaulting.Default(tree, s)
	return u, coerce(u, s)
}

// coerce drops what the schema does not know and reads metadata strictly.
func coerce(u *unstructured.Unstructured, s *structural.Structural) error {
	objectMeta, found, err := objectmeta.GetObjectMeta(u.Object, false)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	pruning.Prune(u.Object, s, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s)
	if err := objectmeta.Coerce(nil, u.Object, s, false, false); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if !found {
		return nil
	}
	return objectmeta.SetObjectMeta(u.Object, objectMeta)
}

func wrongVersion(k *kind, sent string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", sent, k.gvk.GroupVersion()))
}

// summary is as much of a body as the real server's messages hold.
func summary(body []byte) string {
	const most = 30
	if len(body) > most {
		return string(body[:most]) + " ..."
	}
	return string(body)
}

// checkType refuses an object of another kind than the path's.
func checkType(k *kind, sent schema.GroupVersionKind) error {
	if sent == k.gvk {
		return nil
	}
	if sent.GroupVersion() != k.gvk.GroupVersion() {
		return wrongVersion(k, sent.GroupVersion().String())
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: converting (%s) to (%s): unknown conversion", sent.Kind, sent.Version, k.gvk.Kind, sent, k.gvk))
}
