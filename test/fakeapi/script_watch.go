package fakeapi

import "strings"

func watchSteps() []Step {
	watch := func(name, query string) Step { return get(name, outputs+"?watch=1&timeoutSeconds=20&"+query) }
	w := outputs + "/watched"
	return []Step{
		post("the watched output is created", outputs, cfg(`"name":"watched","labels":{"seen":"yes"}`, someSpec)).saved("w"),
		change("it changes", w, mergeType, `{"spec":{"content":"one"}}`),
		change("its status changes", w+"/status", mergeType, `{"status":{"auxiliaryFiles":{"setID":"s"}}}`),
		change("it leaves the selection", w, mergeType, `{"metadata":{"labels":{"seen":"no"}}}`),
		change("it comes back", w, mergeType, `{"metadata":{"labels":{"seen":"yes"}}}`),
		remove("it is deleted", w, ""),
		watch("a watch goes on from a version, in order", "resourceVersion={w.rv}").events(5),
		watch("a watch of a selection sees objects come and go", "resourceVersion={w.rv}&labelSelector=seen%3Dyes").events(5),
		watch("a watch of one name sees its changes only", "resourceVersion={w.rv}&fieldSelector=metadata.name%3Dwatched").events(5),
		watch("a watch without a version begins with the state", "fieldSelector=metadata.name%3Da").events(1),
		watch("a watch from 0 begins with the state", "resourceVersion=0&fieldSelector=metadata.name%3Da").events(1),
		watch("a streamed list ends with a bookmark", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=tier%3Dtwo").events(2),
		watch("a streamed list of nothing is a bookmark", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=tier%3Dnone").events(1),
		watch("a streamed list of a version needs its match", "sendInitialEvents=true&allowWatchBookmarks=true"),
		watch("an old version has expired", "resourceVersion=1").events(1),
		watch("a watch of an unknown field is refused", "fieldSelector=spec.path%3Dx"),
		watch("a watch of a version that is none is refused", "resourceVersion=x").statusOnly(),
		get("a streamed list of Leases ends with a bookmark", leases+"?watch=true&timeoutSeconds=20&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true").events(2),
	}
}

func ownerSteps() []Step {
	owned := func(name, owners string) string {
		return cfg(`"name":"`+name+`","ownerReferences":[`+owners+`]`, someSpec)
	}
	owner := `{"apiVersion":"haproxy-haptic.org/v1alpha1","kind":"HAProxyCfg","name":"owner","uid":"{owner.uid}","controller":true}`
	other := strings.Replace(strings.Replace(owner, `,"controller":true`, "", 1), "owner", "a", 2)
	other = strings.Replace(other, `"name":"a"`, `"name":"a"`, 1)
	return []Step{
		post("an owner is created", outputs, cfg(`"name":"owner"`, someSpec)).saved("owner"),
		post("a dependent is created", outputs, owned("owned", owner)),
		post("a dependent of a dependent's kind is created", leases, leaseBody(`"name":"owned","ownerReferences":[`+owner+`]`, "")),
		post("a dependent of two is created", outputs, owned("shared", owner+","+other)),
		post("two controllers are refused", outputs, owned("torn", owner+","+strings.Replace(other, `"uid"`, `"controller":true,"uid"`, 1))),
		post("an owner without a UID is refused", outputs, owned("loose", `{"apiVersion":"v1","kind":"Pod","name":"p"}`)),
		remove("the owner is deleted", outputs+"/owner", ""),
		get("its dependent goes", outputs+"/owned").until(404),
		get("its dependent of another kind goes", leases+"/owned").until(404),
		get("what has a living owner stays", outputs+"/shared").without("ownerReferences", "managedFields", "resourceVersion"),
	}
}
