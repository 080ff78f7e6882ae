package fakeapi

import (
	"fmt"
	"net/http"
	"strings"
)

// Media types of patches.
const (
	mergeType     = "application/merge-patch+json"
	jsonPatchType = "application/json-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	applyType     = "application/apply-patch+yaml"
)

const (
	ours      = "/apis/haproxy-haptic.org/v1alpha1/namespaces/{ns}/"
	outputs   = ours + "haproxycfgs"
	mapFiles  = ours + "haproxymapfiles"
	templates = ours + "haproxytemplateconfigs"
	leases    = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
	core      = "/api/v1/namespaces/{ns}/"
)

// Script is the contract: the requests whose answers the fake must share with
// the real server.
func Script() []Step {
	return slicesOf(
		discoverySteps(), createSteps(), updateSteps(), statusSteps(), patchSteps(), applySteps(), deleteSteps(),
		leaseSteps(), coreSteps(), podSteps(), limitSteps(), listSteps(), watchSteps(), ownerSteps(),
	)
}

func slicesOf(parts ...[]Step) []Step {
	var all []Step
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// cfg is an output's JSON: metadata and further top-level fields are given.
func cfg(metadata, more string) string {
	return fmt.Sprintf(`{"apiVersion":"haproxy-haptic.org/v1alpha1","kind":"HAProxyCfg","metadata":{%s}%s}`, metadata, more)
}

const someSpec = `,"spec":{"path":"/etc/haproxy.cfg","content":"global","checksum":"0011"}`

func get(name, path string) Step { return Step{Name: name, Method: http.MethodGet, Path: path} }

func post(name, path, body string) Step {
	return Step{Name: name, Method: http.MethodPost, Path: path, Body: body}
}

func put(name, path, body string) Step {
	return Step{Name: name, Method: http.MethodPut, Path: path, Body: body}
}

func change(name, path, mediaType, body string) Step {
	return Step{Name: name, Method: http.MethodPatch, Path: path, Type: mediaType, Body: body}
}

func remove(name, path, body string) Step {
	return Step{Name: name, Method: http.MethodDelete, Path: path, Body: body}
}

func (s Step) saved(name string) Step {
	s.Save = name
	return s
}

func (s Step) without(fields ...string) Step {
	s.Drop = append(s.Drop, fields...)
	return s
}

func (s Step) by(agent string) Step {
	s.Agent = agent
	return s
}

func (s Step) statusOnly() Step {
	s.OnlyStatus = true
	return s
}

func (s Step) events(n int) Step {
	s.Events = n
	return s
}

func (s Step) until(code int) Step {
	s.Until = code
	return s
}

func discoverySteps() []Step {
	return []Step{
		get("the group's resources are discovered", "/apis/haproxy-haptic.org/v1alpha1").without("storageVersionHash", "verbs"),
		get("our kinds are described with what they keep", "/openapi/v3/apis/haproxy-haptic.org/v1alpha1").
			without("paths", "info", "description", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
		get("an unknown group is not found", "/apis/nobody.example/v1"),
		get("an unknown resource of our group is not found", ours+"haproxynothings"),
		get("an unknown resource of the core group is not found", core+"nothings"),
		get("an unknown subresource is not found", outputs+"/a/scale"),
	}
}

func createSteps() []Step {
	return []Step{
		post("an output is created", outputs, cfg(`"name":"a","labels":{"tier":"one"},"annotations":{"x":"1"}`, someSpec)).saved("a"),
		post("an output that exists is not created again", outputs, cfg(`"name":"a"`, someSpec)),
		post("a creation with a version is refused", outputs, cfg(`"name":"versioned","resourceVersion":"7"`, someSpec)),
		post("another kind is refused", outputs, strings.Replace(cfg(`"name":"k"`, someSpec), "HAProxyCfg", "HAProxyMapFile", 1)),
		post("a missing kind is refused", outputs, `{"apiVersion":"haproxy-haptic.org/v1alpha1","metadata":{"name":"k"}}`),
		post("a missing apiVersion is refused", outputs, `{"kind":"HAProxyCfg","metadata":{"name":"k"}}`),
		post("another apiVersion is refused", outputs, strings.Replace(cfg(`"name":"k"`, someSpec), "v1alpha1", "v1beta7", 1)),
		post("broken JSON is refused", outputs, `{"kind":`).statusOnly(),
		post("a missing name is refused", outputs, cfg(``, someSpec)),
		post("a bad name is refused", outputs, cfg(`"name":"No_Name"`, someSpec)),
		post("a bad label is refused", outputs, cfg(`"name":"k","labels":{"-":"x"}`, someSpec)),
		post("another namespace is refused", outputs, cfg(`"name":"k","namespace":"elsewhere"`, someSpec)),
		post("metadata of the wrong type is refused", outputs, cfg(`"name":"k","labels":7`, someSpec)).statusOnly(),
		post("a name is generated", outputs, cfg(`"generateName":"gen-"`, someSpec)).saved("gen"),
		post("a missing required field is refused", outputs, cfg(`"name":"k"`, `,"spec":{"path":"/p"}`)),
		post("a field of the wrong type is refused", outputs, cfg(`"name":"k"`, `,"spec":{"path":7,"content":"c","checksum":"s"}`)),
		post("unknown fields are pruned but where the schema keeps them", outputs,
			cfg(`"name":"pruned","unknown":1`, `,"spec":{"path":"/p","content":"c","checksum":"s","kept":{"a":[1,null]}},"unknown":{"a":1}`)).saved("pruned"),
		post("a status is dropped at creation", outputs, cfg(`"name":"stateless"`, someSpec+`,"status":{"deployedToPods":[{"podName":"p"}]}`)),
		post("system fields are the server's", outputs,
			cfg(`"name":"system","uid":"mine","generation":9,"creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z"`, someSpec)),
		post("defaults are filled in", templates, `{"apiVersion":"haproxy-haptic.org/v1alpha1","kind":"HAProxyTemplateConfig","metadata":{"name":"t"},
			"spec":{"controller":{"leaderElection":{}},"haproxyConfig":{"template":"x"},"podSelector":{"matchLabels":{"a":"b"}},"watchedResources":{}}}`).saved("t"),
		post("a rule in CEL is enforced", mapFiles, `{"apiVersion":"haproxy-haptic.org/v1alpha1","kind":"HAProxyMapFile","metadata":{"name":"m"},
			"spec":{"path":"/m","mapName":"m","checksum":"s"}}`),
		post("a creation under a name is not allowed", outputs+"/a", cfg(`"name":"a"`, someSpec)),
		get("an output is read", outputs+"/a"),
		get("a missing output is not found", outputs+"/nobody"),
	}
}

func updateSteps() []Step {
	one, two := outputs+"/a", `,"spec":{"path":"/etc/haproxy.cfg","content":"defaults","checksum":"0011"}`
	keep := `"name":"a","labels":{"tier":"one"},"annotations":{"x":"1"},"resourceVersion":`
	return []Step{
		put("an update without a version is refused", one, cfg(`"name":"a"`, two)),
		put("an update with a foreign UID is refused", one, cfg(`"name":"a","uid":"11111111-2222-4333-8444-555555555555","resourceVersion":"{a.rv}"`, two)),
		put("an update that changes nothing keeps the version", one, cfg(keep+`"{a.rv}"`, someSpec)),
		put("a change of spec raises the generation", one, cfg(keep+`"{a.rv}","uid":"{a.uid}"`, two)).saved("b"),
		put("a stale version conflicts", one, cfg(keep+`"{a.rv}"`, someSpec)),
		put("a version that is no number is refused", one, cfg(keep+`"x1"`, someSpec)).statusOnly(),
		put("a change of metadata keeps the generation", one, cfg(`"name":"a","labels":{"tier":"two"},"resourceVersion":"{b.rv}"`, two)).saved("c").by("labeller"),
		put("generation and creation stay the server's", one, cfg(`"name":"a","labels":{"tier":"two"},"resourceVersion":"{c.rv}","generation":9,"creationTimestamp":"2001-01-01T00:00:00Z"`, two)).saved("c"),
		put("a deletion cannot be written", one, cfg(`"name":"a","labels":{"tier":"two"},"resourceVersion":"{c.rv}","deletionTimestamp":"2001-01-01T00:00:00Z"`, two)),
		put("a status does not pass through the object", one, cfg(`"name":"a","labels":{"tier":"two"},"resourceVersion":"{c.rv}"`, two+`,"status":{"deployedToPods":[{"podName":"p"}]}`)),
		put("another name is refused", one, cfg(`"name":"other","resourceVersion":"{c.rv}"`, two)),
		put("no name is refused", one, cfg(`"resourceVersion":"{c.rv}"`, two)),
		put("another namespace is refused in an update", one, cfg(`"name":"a","namespace":"elsewhere","resourceVersion":"{c.rv}"`, two)),
		put("an invalid update is refused", one, cfg(`"name":"a","resourceVersion":"{c.rv}"`, `,"spec":{"path":"","content":"c","checksum":"s"}`)),
		put("a missing output cannot be updated", outputs+"/nobody", cfg(`"name":"nobody","resourceVersion":"{c.rv}"`, two)),
		put("a missing output cannot be updated without a version", outputs+"/nobody", cfg(`"name":"nobody"`, two)),
		put("an overlong field manager is refused", one+"?fieldManager="+strings.Repeat("m", 129), cfg(`"name":"a","resourceVersion":"{c.rv}"`, two)),
	}
}

func statusSteps() []Step {
	path := outputs + "/a/status"
	status := `,"status":{"auxiliaryFiles":{"mapFiles":[{"kind":"HAProxyMapFile","name":"m"}]},"unknown":1}`
	return []Step{
		put("a status is written, and nothing else", path,
			cfg(`"name":"a","labels":{"tier":"three"},"resourceVersion":"{c.rv}"`, `,"spec":{"path":"/other","content":"x","checksum":"y"}`+status)).saved("d").by("publisher"),
		put("a stale status conflicts", path, cfg(`"name":"a","resourceVersion":"{c.rv}"`, someSpec+status)),
		put("a status without a version is refused", path, cfg(`"name":"a"`, someSpec+status)),
		put("an invalid status is refused", path, cfg(`"name":"a","resourceVersion":"{d.rv}"`, someSpec+`,"status":{"conditions":[{"type":"Ready"}]}`)),
		put("a doubled key of a list is refused", path, cfg(`"name":"a","resourceVersion":"{d.rv}"`, someSpec+`,"status":{"deployedToPods":[{"podName":"p","checksum":"a"},{"podName":"p","checksum":"b"}]}`)).statusOnly(),
		put("a missing output's status is not found", outputs+"/nobody/status", cfg(`"name":"nobody","resourceVersion":"{d.rv}"`, someSpec+status)),
		get("a status is read", path),
	}
}

func patchSteps() []Step {
	one := outputs + "/a"
	return []Step{
		change("a merge patch changes the spec", one, mergeType, `{"spec":{"content":"patched"}}`).saved("e"),
		change("a merge patch that changes nothing keeps the version", one, mergeType, `{"spec":{"content":"patched"}}`),
		change("a merge patch with a stale version conflicts", one, mergeType, `{"metadata":{"resourceVersion":"{a.rv}"},"spec":{"content":"stale"}}`),
		change("a merge patch with the version is done", one, mergeType, `{"metadata":{"resourceVersion":"{e.rv}","annotations":{"x":null,"y":"2"}}}`).saved("f"),
		change("a merge patch cannot change the UID", one, mergeType, `{"metadata":{"uid":"11111111-2222-4333-8444-555555555555"}}`),
		change("a merge patch cannot rename", one, mergeType, `{"metadata":{"name":"other"}}`),
		change("a merge patch of the status leaves the spec", one+"/status", mergeType, `{"spec":{"content":"no"},"status":{"auxiliaryFiles":{"setID":"s1"}}}`),
		change("a broken merge patch is refused", one, mergeType, `{"spec":`).statusOnly(),
		change("a merge patch is validated", one, mergeType, `{"spec":{"path":null}}`),
		change("a JSON patch changes a field", one, jsonPatchType, `[{"op":"test","path":"/spec/content","value":"patched"},{"op":"replace","path":"/spec/content","value":"json"}]`),
		change("a JSON patch whose test fails changes nothing", one, jsonPatchType, `[{"op":"test","path":"/spec/content","value":"patched"},{"op":"remove","path":"/spec/content"}]`),
		change("a strategic patch of an output is not understood", one, strategicType, `{"spec":{"content":"no"}}`),
		change("an unknown patch is not understood", one, "application/unknown", `{}`),
		change("a missing output cannot be patched", outputs+"/nobody", mergeType, `{"spec":{"content":"no"}}`),
		change("force belongs to apply", one+"?force=true", mergeType, `{"spec":{"content":"no"}}`),
	}
}
