package fakeapi

import (
	"fmt"
	"strings"
)

// entry is an apply of one pod's entry.
func entry(pod, checksum string) string {
	return cfg(`"name":"a"`, fmt.Sprintf(`,"status":{"deployedToPods":[{"podName":%q,"checksum":%q}]}`, pod, checksum))
}

func applySteps() []Step {
	status := outputs + "/a/status?fieldManager="
	steps := []Step{
		change("an apply without a field manager is refused", outputs+"/a/status", applyType, entry("p1", "c1")),
		change("a pod's entry is applied", status+"pod-1", applyType, entry("p1", "c1")).saved("g"),
		change("an apply that changes nothing keeps the version", status+"pod-1", applyType, entry("p1", "c1")),
		change("a second pod's entry is applied beside it", status+"pod-2", applyType, entry("p2", "c1")),
		change("another manager's value conflicts", status+"pod-2", applyType, entry("p1", "c2")),
		change("an equal value is shared", status+"pod-3", applyType, entry("p1", "c1")),
		change("force takes a value over", status+"pod-2&force=true", applyType, entry("p1", "c2")),
		change("an apply without the entry removes it", status+"pod-2", applyType, cfg(`"name":"a"`, "")),
		change("an apply can be written in YAML", status+"pod-4", applyType,
			"apiVersion: haproxy-haptic.org/v1alpha1\nkind: HAProxyCfg\nmetadata:\n  name: a\nstatus:\n  deployedToPods:\n  - podName: p4\n    checksum: c4\n"),
		change("broken YAML is refused", status+"pod-4", applyType, "a: [").statusOnly(),
		change("an apply of another version is refused", status+"pod-4", applyType, strings.Replace(entry("p4", "c"), "v1alpha1", "v1beta7", 1)),
		change("an apply of another kind is refused", status+"pod-4", applyType, strings.Replace(entry("p4", "c"), "HAProxyCfg", "HAProxyMapFile", 1)).statusOnly(),
		change("an apply with another name is refused", status+"pod-4", applyType, strings.Replace(entry("p4", "c"), `"a"`, `"other"`, 1)),
		change("an apply with the UID is done", status+"pod-4", applyType, strings.Replace(entry("p4", "c5"), `"name"`, `"uid":"{a.uid}","name"`, 1)),
		// Nobody's metadata counts in a status, so this is no precondition.
		change("an apply of a status does not look at the UID", status+"pod-4", applyType, strings.Replace(entry("p4", "c6"), `"name"`, `"uid":"11111111-2222-4333-8444-555555555555","name"`, 1)),
		change("an apply with a stale version conflicts", status+"pod-4", applyType, strings.Replace(entry("p4", "c6"), `"name"`, `"resourceVersion":"{a.rv}","name"`, 1)),
		change("an apply with managedFields is refused", status+"pod-4", applyType, strings.Replace(entry("p4", "c6"), `"name"`, `"managedFields":[{"manager":"x"}],"name"`, 1)),
		change("an apply without the key of a list is refused", status+"pod-4", applyType, cfg(`"name":"a"`, `,"status":{"deployedToPods":[{"checksum":"c"}]}`)).statusOnly(),
		change("an applied entry is validated", status+"pod-4", applyType, cfg(`"name":"a"`, `,"status":{"deployedToPods":[{"podName":"p4","consecutiveErrors":-1}]}`)),
		change("an apply of a missing output's status is not found", outputs+"/nobody/status?fieldManager=pod-1", applyType, strings.Replace(entry("p1", "c"), `"a"`, `"nobody"`, 1)),
		change("an apply creates", outputs+"/applied?fieldManager=maker", applyType, cfg(`"name":"applied"`, someSpec)),
		change("an apply with a UID does not create", outputs+"/unmade?fieldManager=maker", applyType, cfg(`"name":"unmade","uid":"{a.uid}"`, someSpec)),
		change("an apply meets an updater's value", outputs+"/a?fieldManager=maker", applyType, cfg(`"name":"a"`, someSpec)),
		change("an apply of an object with a foreign UID is refused", outputs+"/applied?fieldManager=maker", applyType, cfg(`"name":"applied","uid":"{a.uid}"`, someSpec)),
		change("an apply drops no field of others", outputs+"/applied?fieldManager=other", applyType, cfg(`"name":"applied","labels":{"by":"other"}`, "")),
		change("an updater takes an applied value over", outputs+"/applied", mergeType, `{"spec":{"content":"taken"}}`).by("updater"),
	}
	// Their names rise with time, because the oldest are merged first and times
	// are whole seconds.
	for i := range 12 {
		steps = append(steps, change(fmt.Sprintf("updater %d of 12 leaves at most ten entries", i+1), outputs+"/applied", mergeType,
			fmt.Sprintf(`{"metadata":{"annotations":{"n%d":"x"}}}`, i)).by(fmt.Sprintf("updater-%02d", i)))
	}
	return append(steps, get("the entries of all appliers are read", outputs+"/a"))
}

func deleteSteps() []Step {
	one := outputs + "/mortal"
	options := func(preconditions string) string {
		return `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{` + preconditions + `}}`
	}
	held := `"name":"mortal","finalizers":["example.com/hold"]`
	return []Step{
		post("an output with a finalizer is created", outputs, cfg(held, someSpec)).saved("m"),
		remove("a deletion with a foreign UID conflicts", one, options(`"uid":"11111111-2222-4333-8444-555555555555"`)),
		remove("a deletion with a stale version conflicts", one, options(`"uid":"{m.uid}","resourceVersion":"{a.rv}"`)),
		remove("a deletion waits for the finalizer", one, options(`"uid":"{m.uid}","resourceVersion":"{m.rv}"`)).saved("n"),
		remove("a second deletion waits too", one, ""),
		put("an object that is being deleted can change", one, cfg(held+`,"labels":{"a":"b"},"resourceVersion":"{n.rv}"`, someSpec)).saved("n"),
		put("a finalizer cannot come late", one, cfg(`"name":"mortal","finalizers":["example.com/hold","example.com/late"],"resourceVersion":"{n.rv}"`, someSpec)),
		post("its name is still taken", outputs, cfg(`"name":"mortal"`, someSpec)),
		change("the last finalizer goes, and the object with it", one, mergeType, `{"metadata":{"finalizers":null}}`),
		get("a deleted output is not found", one),
		post("a name can be used again", outputs, cfg(`"name":"mortal"`, someSpec)).saved("o"),
		remove("a deletion with both preconditions is done", one, options(`"uid":"{o.uid}","resourceVersion":"{o.rv}"`)),
		remove("a missing output cannot be deleted", one, ""),
		remove("broken options are refused", outputs+"/a", `{"kind":`).statusOnly(),
	}
}
