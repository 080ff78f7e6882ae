package render

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

func loadTemplate(t *testing.T, path string) *v1alpha1.HAProxyTemplateConfig {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := &v1alpha1.HAProxyTemplateConfig{}
	if err := yaml.UnmarshalStrict(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// object reads one object from YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	raw, err := out.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	// Through the API's decoder, so that numbers are what an informer holds.
	if err := out.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return out
}

// smallDocuments are what the small template and the demo fetch.
var smallDocuments = map[string]string{"blocklist": "192.0.2.1\n198.51.100.0/24\n"}

func smallSnapshot(t *testing.T) Snapshot {
	t.Helper()
	list := func(texts ...string) (out []*unstructured.Unstructured) {
		for _, text := range texts {
			out = append(out, object(t, text))
		}
		return out
	}
	return Snapshot{
		"services": {Objects: list(
			"{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: web}, spec: {ports: [{name: http, port: 80}]}}",
			"{apiVersion: v1, kind: Service, metadata: {name: blog, namespace: web}, spec: {ports: [{name: http, port: 80}]}}",
		)},
		"endpoints": {IndexBy: []string{`metadata.labels['kubernetes\.io/service-name']`}, Objects: list(
			"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: shop-2, namespace: web, labels: {kubernetes.io/service-name: shop}}, ports: [{name: http, port: 8000}], endpoints: [{addresses: [10.244.0.7], conditions: {ready: true}}, {addresses: [10.244.0.8], conditions: {ready: false}}]}",
			"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: shop-1, namespace: web, labels: {kubernetes.io/service-name: shop}}, ports: [{name: http, port: 8000}], endpoints: [{addresses: [10.244.0.5], conditions: {ready: true}}]}",
			"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: blog-1, namespace: web, labels: {kubernetes.io/service-name: blog}}, ports: [{name: http, port: 8000}], endpoints: [{addresses: [10.244.0.6], conditions: {ready: true}}]}",
		)},
		"certificates": {Objects: list(
			"{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: web-tls, namespace: web}, data: {tls.crt: Y2VydGlmaWNhdGUgYnl0ZXMK, tls.key: dGhlIHByaXZhdGUga2V5IGJ5dGVzCg==}}",
		)},
	}
}
