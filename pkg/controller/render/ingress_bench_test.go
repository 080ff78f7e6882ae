package render

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// BenchmarkIngressLibrary renders 3,000 routes, each with a Service and an endpoint
// of its own: all of them, and after the change of one.
func BenchmarkIngressLibrary(b *testing.B) {
	raw, err := os.ReadFile(ingressTemplate)
	if err != nil {
		b.Fatal(err)
	}
	template := &v1alpha1.HAProxyTemplateConfig{}
	if err := yaml.UnmarshalStrict(raw, template); err != nil {
		b.Fatal(err)
	}
	// change replaces one object by one that differs, as a watch does.
	change := func(s Snapshot, kind string, edit func(o map[string]any)) {
		s[kind].Objects[7] = s[kind].Objects[7].DeepCopy()
		edit(s[kind].Objects[7].Object)
	}
	for _, c := range []struct {
		name   string
		fresh  bool
		change func(s Snapshot, round int)
	}{
		{name: "everything", fresh: true},
		{name: "nothing changed"},
		{name: "an endpoint changed", change: func(s Snapshot, round int) {
			change(s, "endpoints", func(o map[string]any) {
				o["endpoints"] = []any{map[string]any{"addresses": []any{fmt.Sprintf("10.2.0.%d", round%250)}}}
			})
		}},
		{name: "a route changed", change: func(s Snapshot, round int) {
			change(s, "ingresses", func(o map[string]any) {
				rule := o["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)
				rule["host"] = fmt.Sprintf("changed-%d.example", round)
			})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			renderer, err := Compile(template)
			if err != nil {
				b.Fatal(err)
			}
			snapshot := manyRoutes(3000, template)
			if _, err := renderer.Render(b.Context(), snapshot); err != nil {
				b.Fatal(err)
			}
			round := 0
			b.ReportAllocs()
			for b.Loop() {
				if c.fresh {
					renderer.memory = newMemory()
				}
				if round++; c.change != nil {
					c.change(snapshot, round)
				}
				if _, err := renderer.Render(b.Context(), snapshot); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func manyRoutes(count int, template *v1alpha1.HAProxyTemplateConfig) Snapshot {
	snapshot := Snapshot{}
	for name, resource := range template.Spec.WatchedResources {
		snapshot[name] = Kind{IndexBy: resource.IndexBy}
	}
	add := func(name string, content map[string]any) {
		kind := snapshot[name]
		kind.Objects = append(kind.Objects, &unstructured.Unstructured{Object: content})
		snapshot[name] = kind
	}
	for i := range count {
		service := fmt.Sprintf("svc-%d", i)
		meta := func(name string, labels map[string]any) map[string]any {
			return map[string]any{"namespace": "shop", "name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
		}
		add("ingresses", map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta(fmt.Sprint("route-", i), nil),
			"spec": map[string]any{"ingressClassName": "holdfast", "rules": []any{map[string]any{"host": fmt.Sprintf("h%d.example", i),
				"http": map[string]any{"paths": []any{map[string]any{"path": "/", "pathType": "Prefix",
					"backend": map[string]any{"service": map[string]any{"name": service, "port": map[string]any{"number": int64(80)}}}}}}}}}})
		add("services", map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": meta(service, nil),
			"spec": map[string]any{"ports": []any{map[string]any{"name": "web", "port": int64(80)}}}})
		add("endpoints", map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata": meta(service, map[string]any{"kubernetes.io/service-name": service}), "addressType": "IPv4",
			"ports":     []any{map[string]any{"name": "web", "port": int64(8080)}},
			"endpoints": []any{map[string]any{"addresses": []any{fmt.Sprintf("10.1.%d.%d", i/250, i%250)}}}})
	}
	return snapshot
}
