package controller

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// keepsUnknown is how a schema says that unknown fields are kept.
const keepsUnknown = "x-kubernetes-preserve-unknown-fields"

// ownDocument is what the API server says of the project's own definitions.
func ownDocument(t *testing.T) (served []metav1.APIResource, document []byte) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(fakeapi.New(fakeapi.Options{}).Config(fakeapi.Admin)).Discovery()
	list, err := client.ServerResourcesForGroupVersion("haproxy-haptic.org/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	document, err = client.RESTClient().Get().AbsPath("/openapi/v3/apis/haproxy-haptic.org/v1alpha1").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list.APIResources, document
}

// schemaOf is a kind's schema in a document. It may be changed.
func schemaOf(document map[string]any, kind string) map[string]any {
	schemas := document["components"].(map[string]any)["schemas"].(map[string]any)
	return schemas["org.haproxy-haptic.v1alpha1."+kind].(map[string]any)
}

// prune makes parts of a kind drop unknown fields, as HAPTIC's definitions do.
func prune(document map[string]any, kind string, parts ...string) {
	schema := schemaOf(document, kind)
	for _, part := range parts {
		if part == "root" {
			delete(schema, keepsUnknown)
			continue
		}
		delete(schema["properties"].(map[string]any)[part].(map[string]any), keepsUnknown)
	}
}

// asHAPTIC makes all five kinds what HAPTIC defines.
func asHAPTIC(document map[string]any) {
	for _, kind := range []string{"HAProxyCfg", "HAProxyCRTListFile", "HAProxyGeneralFile", "HAProxyMapFile", "HAProxyTemplateConfig"} {
		prune(document, kind, "root", "spec", "status")
	}
}

// edited is a document after a change.
func edited(t *testing.T, document []byte, edit func(map[string]any)) []byte {
	t.Helper()
	tree := map[string]any{}
	err := json.Unmarshal(document, &tree)
	if err == nil {
		edit(tree)
		document, err = json.Marshal(tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// library is a kind that HAPTIC has and this project has not.
func library(keep bool) (metav1.APIResource, func(map[string]any)) {
	resource := metav1.APIResource{Name: "haproxytemplatelibraries", Kind: "HAProxyTemplateLibrary", Namespaced: true}
	return resource, func(document map[string]any) {
		schemas := document["components"].(map[string]any)["schemas"].(map[string]any)
		schemas["org.haproxy-haptic.v1alpha1.HAProxyTemplateLibrary"] = map[string]any{
			keepsUnknown: keep,
			"properties": map[string]any{"spec": map[string]any{keepsUnknown: keep}},
			"x-kubernetes-group-version-kind": []any{
				map[string]any{"group": "haproxy-haptic.org", "version": "v1alpha1", "kind": "HAProxyTemplateLibrary"},
			},
		}
	}
}

func TestJudgeDefinitions(t *testing.T) {
	served, own := ownDocument(t)
	foreignKind, addForeign := library(false)
	newerKind, addNewer := library(true)
	tests := []struct {
		name string
		more []metav1.APIResource
		edit func(map[string]any)
		// dropping is what a refusal says of the definitions; empty wants none.
		dropping string
		// pending wants that nothing is known yet.
		pending bool
	}{
		{name: "the project's own", edit: func(map[string]any) {}},
		{
			name: "HAPTIC's, all of them", edit: asHAPTIC,
			dropping: "haproxycfgs.haproxy-haptic.org (root, spec, status), haproxycrtlistfiles.haproxy-haptic.org (root, spec, status), " +
				"haproxygeneralfiles.haproxy-haptic.org (root, spec, status), haproxymapfiles.haproxy-haptic.org (root, spec, status), " +
				"haproxytemplateconfigs.haproxy-haptic.org (root, spec, status)",
		},
		{
			name:     "HAPTIC's, one that was left",
			edit:     func(d map[string]any) { prune(d, "HAProxyMapFile", "root", "spec", "status") },
			dropping: "haproxymapfiles.haproxy-haptic.org (root, spec, status)",
		},
		{
			name:     "one that loses a status alone",
			edit:     func(d map[string]any) { prune(d, "HAProxyCfg", "status") },
			dropping: "haproxycfgs.haproxy-haptic.org (status)",
		},
		{
			name: "a kind that only HAPTIC has, beside the project's own", more: []metav1.APIResource{foreignKind}, edit: addForeign,
			dropping: "haproxytemplatelibraries.haproxy-haptic.org (root, spec)",
		},
		{name: "a kind of a newer release of the project", more: []metav1.APIResource{newerKind}, edit: addNewer},
		{name: "a kind that is not described yet", more: []metav1.APIResource{newerKind}, edit: func(map[string]any) {}, pending: true},
		{
			name: "a refusal does not wait for the kinds that are not described yet", more: []metav1.APIResource{newerKind},
			edit:     func(d map[string]any) { prune(d, "HAProxyCfg", "spec") },
			dropping: "haproxycfgs.haproxy-haptic.org (spec)",
		},
		{
			name: "another version describes nothing that is used",
			edit: func(d map[string]any) {
				schemaOf(d, "HAProxyCfg")["x-kubernetes-group-version-kind"].([]any)[0].(map[string]any)["version"] = "v1"
			},
			pending: true,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := judgeDefinitions(append(served, tc.more...), edited(t, own, tc.edit))
			var refused *RefusalError
			if errors.As(err, &refused) != (tc.dropping != "") || errors.Is(err, errNotDescribed) != tc.pending ||
				(err == nil) != (tc.dropping == "" && !tc.pending) {
				t.Fatalf("judged %v", err)
			}
			if tc.dropping != "" {
				want := "refused to start: the custom resource definitions " + tc.dropping +
					" drop unknown fields at the places named, as those of HAPTIC do, and those of this project keep them; " + remedyInstallation
				if diff := cmp.Diff(want, err.Error()); diff != "" {
					t.Errorf("the sentence (-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("an answer that is no document", func(t *testing.T) {
		err := judgeDefinitions(served, []byte("<html>"))
		var refused *RefusalError
		if err == nil || errors.As(err, &refused) {
			t.Errorf("judged %v, want that nothing is known", err)
		}
	})
}

func FuzzJudgeDefinitions(f *testing.F) {
	f.Add([]byte(`{"components":{"schemas":{"a":{"x-kubernetes-group-version-kind":[{"group":"haproxy-haptic.org","version":"v1alpha1","kind":"HAProxyCfg"}],"properties":{"spec":null}}}}}`))
	f.Add([]byte(`{"components":null}`))
	served := []metav1.APIResource{{Name: "haproxycfgs", Kind: "HAProxyCfg"}}
	f.Fuzz(func(t *testing.T, document []byte) {
		first, second := judgeDefinitions(served, document), judgeDefinitions(served, document)
		if (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
			t.Errorf("judged %v, then %v", first, second)
		}
	})
}
