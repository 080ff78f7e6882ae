package fakeapi

import (
	"fmt"
	"net/http"
	"strings"
)

func leaseBody(metadata, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{%s},"spec":{%s}}`, metadata, spec)
}

func leaseSteps() []Step {
	one, spec := leases+"/l", `"holderIdentity":"one","leaseDurationSeconds":15,"leaseTransitions":0,"renewTime":"2026-01-01T00:00:00.000001Z"`
	renewed := strings.Replace(spec, "00:00.000001", "00:05.000000", 1)
	return []Step{
		post("a Lease is created, without unknown fields", leases, leaseBody(`"name":"l","annotations":{"haptic.io/leader-epoch":"1"}`, spec+`,"unknown":1`)).saved("l"),
		post("a Lease that exists is not created again", leases, leaseBody(`"name":"l"`, spec)),
		put("a Lease without a version is refused", one, leaseBody(`"name":"l"`, renewed)),
		put("a Lease is renewed", one, leaseBody(`"name":"l","annotations":{"haptic.io/leader-epoch":"1"},"resourceVersion":"{l.rv}"`, renewed)).saved("r"),
		put("a stale renewal conflicts", one, leaseBody(`"name":"l","resourceVersion":"{l.rv}"`, spec)),
		put("a renewal of nothing keeps the version", one, leaseBody(`"name":"l","annotations":{"haptic.io/leader-epoch":"1"},"resourceVersion":"{r.rv}"`, renewed)),
		put("another takes the Lease", one, leaseBody(`"name":"l","annotations":{"haptic.io/leader-epoch":"1"},"resourceVersion":"{r.rv}"`, strings.Replace(renewed, "one", "two", 1))).by("other").saved("r"),
		put("a claim is written", one, leaseBody(`"name":"l","annotations":{"haptic.io/leader-epoch":"2","more":"x"},"resourceVersion":"{r.rv}"`, strings.Replace(renewed, "one", "two", 1))).by("third").saved("r"),
		put("a Lease with a foreign UID conflicts", one, leaseBody(`"name":"l","uid":"{a.uid}","resourceVersion":"{r.rv}"`, spec)),
		put("durations are validated", one, leaseBody(`"name":"l","resourceVersion":"{r.rv}"`, `"leaseDurationSeconds":0,"leaseTransitions":-1`)),
		put("a time that is none is refused", one, leaseBody(`"name":"l","resourceVersion":"{r.rv}"`, `"renewTime":"soon"`)).statusOnly(),
		put("a Lease is created by an update", leases+"/made", leaseBody(`"name":"made"`, spec)),
		put("a Lease with a version is not created by an update", leases+"/unmade", leaseBody(`"name":"unmade","resourceVersion":"{r.rv}"`, spec)),
		put("a Lease with a UID is not created by an update", leases+"/unmade", leaseBody(`"name":"unmade","uid":"{l.uid}"`, spec)),
		post("a Lease with a version is not created", leases, leaseBody(`"name":"unmade","resourceVersion":"{r.rv}"`, spec)),
		post("a Lease of another kind is refused", leases, strings.Replace(leaseBody(`"name":"k"`, spec), `"Lease"`, `"Secret"`, 1)).statusOnly(),
		post("a body that is no JSON is not understood", leases, "x").typed("text/plain").statusOnly(),
		change("a Lease takes a strategic patch", one, strategicType, `{"spec":{"holderIdentity":"three"}}`),
		change("a Lease is applied", one+"?fieldManager=applier", applyType, leaseBody(`"name":"l","labels":{"a":"b"}`, "")),
		change("a Lease's status does not exist", one+"/status", mergeType, `{}`),
		get("a Lease is read", one).saved("l"),
		remove("a Lease with a stale version is not deleted", one, `{"preconditions":{"resourceVersion":"{r.rv}"}}`),
		remove("a Lease is deleted", one, `{"preconditions":{"resourceVersion":"{l.rv}"}}`),
		put("a deleted Lease cannot be renewed", one, leaseBody(`"name":"l","resourceVersion":"{l.rv}"`, spec)),
	}
}

func (s Step) typed(mediaType string) Step {
	s.Type = mediaType
	return s
}

func coreSteps() []Step {
	secret := func(metadata, more string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{%s}%s}`, metadata, more)
	}
	event := func(metadata, namespace, more string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{%s},"involvedObject":{"kind":"Lease","name":"l","namespace":%q},"reason":"R","message":"m","type":"Normal"%s}`, metadata, namespace, more)
	}
	return []Step{
		post("a Secret gets its type, and plain strings become data", core+"secrets", secret(`"name":"s"`, `,"data":{"a":"YQ=="},"stringData":{"b":"b"}`)).saved("s"),
		put("a Secret without a version is written over", core+"secrets/s", secret(`"name":"s"`, `,"data":{"a":"Yg=="}`)),
		put("a stale Secret conflicts", core+"secrets/s", secret(`"name":"s","resourceVersion":"{s.rv}"`, `,"data":{"a":"Yw=="}`)),
		put("a Secret's type stays", core+"secrets/s", secret(`"name":"s"`, `,"type":"example.com/other"`)),
		post("a bad key is refused", core+"secrets", secret(`"name":"k"`, `,"data":{"a b":""}`)),
		post("base64 that is none is refused", core+"secrets", secret(`"name":"k"`, `,"data":{"a":"?"}`)).statusOnly(),
		put("a missing Secret cannot be updated", core+"secrets/nobody", secret(`"name":"nobody"`, "")),
		post("a ConfigMap is created", core+"configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}`),
		change("a ConfigMap takes a strategic patch", core+"configmaps/c", strategicType, `{"data":{"a":null,"b":"2"}}`),
		get("Secrets are listed by type", core+"secrets?fieldSelector=type%3DOpaque"),
		get("an unknown field of Secrets is refused", core+"secrets?fieldSelector=data%3Dx").statusOnly(),
		remove("a Secret is deleted", core+"secrets/s", ""),
		post("an event is created", core+"events", event(`"name":"e"`, "{ns}", "")),
		post("an event of another namespace is refused", core+"events", event(`"name":"e2"`, "elsewhere", "")).statusOnly(),
		change("an event is counted up", core+"events/e", strategicType, `{"count":2}`),
	}
}

func podSteps() []Step {
	// What runs is not what is compared: the real server fills in much more.
	hidden := []string{"spec", "managedFields"}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{%s},"spec":{"nodeName":"nowhere","containers":[{"name":"c","image":"i"}]}%s}`
	one := core + "pods/p"
	return []Step{
		post("a pod is created", core+"pods", fmt.Sprintf(pod, `"name":"p","labels":{"a":"b"}`, `,"status":{"phase":"Running"}`)).saved("p").without(hidden...),
		change("a pod's status is written", one+"/status", mergeType, `{"status":{"phase":"Running","podIP":"10.244.9.9","podIPs":[{"ip":"10.244.9.9"}]}}`).without(hidden...),
		change("a pod's label is written", one, strategicType, `{"metadata":{"labels":{"c":"d"}}}`).without(hidden...),
		get("pods are listed by label and node", core+"pods?labelSelector=a%3Db&fieldSelector=spec.nodeName%3Dnowhere").without(hidden...),
		get("pods of another node are not listed", core+"pods?fieldSelector=spec.nodeName%3Delsewhere"),
		remove("a pod on a node is given time", one, "").without(hidden...),
		remove("a second deletion changes nothing", one, "").without(hidden...),
		remove("a deletion without grace is done", one, `{"gracePeriodSeconds":0}`).without(hidden...),
		get("a deleted pod is not found", one),
	}
}

// largestContent fills an output of a four-letter name, in the namespace
// "fakeapi-contract", up to etcd's bound.
const largestContent = 1572408

func limitSteps() []Step {
	sized := func(name string, bytes int) string {
		return cfg(fmt.Sprintf(`"name":%q`, name), `,"spec":{"path":"/p","checksum":"s","content":"`+strings.Repeat("x", bytes)+`"}`)
	}
	secret := func(name string, bytes int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"a":"%s"}}`, name, strings.Repeat("x", bytes))
	}
	const mebibyte = 1 << 20
	return []Step{
		post("an output of 1.48 MiB is stored", outputs, sized("big", mebibyte*148/100)).without("content").saved("big"),
		post("one of as many bytes as etcd takes is stored", outputs, sized("edge", largestContent)).without("content").saved("edge"),
		post("one of one byte more is not", outputs, sized("fall", largestContent+1)),
		put("an update has less room than a creation", outputs+"/edge", strings.Replace(sized("edge", largestContent-1), `"name":`, `"resourceVersion":"{edge.rv}","name":`, 1)),
		change("an apply keeps its managedFields, and so is too large", outputs+"/edge/status?fieldManager=pod-1", applyType, strings.Replace(entry("p1", "c1"), `"a"`, `"edge"`, 1)),
		remove("the largest output is deleted", outputs+"/edge", ""),
		post("an output of 1.5 MiB is too large for etcd", outputs, sized("bigger", mebibyte*3/2)),
		put("an update to 1.5 MiB is too large for etcd", outputs+"/big", strings.Replace(sized("big", mebibyte*3/2), `"name":`, `"resourceVersion":"{big.rv}","name":`, 1)),
		post("an output of 2.1 MiB is too large for etcd's client", outputs, sized("biggest", mebibyte*21/10)),
		post("a body of more than 3 MiB is too large", outputs, sized("huge", 3*mebibyte)),
		remove("the large output is deleted", outputs+"/big", ""),
		post("a Secret of 1 MiB is stored", core+"secrets", secret("full", mebibyte)).without("data"),
		post("one byte more is refused", core+"secrets", secret("over", mebibyte+1)),
		remove("the full Secret is deleted", core+"secrets/full", ""),
		post("annotations of more than 256 KiB are refused", outputs, cfg(`"name":"annotated","annotations":{"a":"`+strings.Repeat("x", 256<<10)+`"}`, someSpec)).statusOnly(),
		post("a Lease's annotations of 256 KiB are stored", leases, leaseBody(`"name":"annotated","annotations":{"a":"`+strings.Repeat("x", 256<<10-1)+`"}`, "")).without("annotations"),
		remove("the annotated Lease is deleted", leases+"/annotated", ""),
	}
}

func listSteps() []Step {
	return []Step{
		get("outputs are listed by name", outputs),
		get("outputs are listed by label", outputs+"?labelSelector=tier%3Dtwo"),
		get("outputs are listed by a set of labels", outputs+"?labelSelector=tier+in+(one,two),!absent"),
		get("one output is listed by its name", outputs+"?fieldSelector=metadata.name%3Dpruned"),
		get("nothing is listed under an unknown name", outputs+"?fieldSelector=metadata.name%3Dnobody"),
		get("an unknown field of outputs is refused", outputs+"?fieldSelector=spec.path%3Dx"),
		get("an unknown field of Leases is refused", leases+"?fieldSelector=spec.x%3Dx"),
		get("a selector that is none is refused", outputs+"?labelSelector=%3D%3D").statusOnly(),
		get("Leases are listed", leases),
		get("a list from the cache is current", leases+"?resourceVersion=0"),
		get("a list not older than a version is current", leases+"?resourceVersion={l.rv}&resourceVersionMatch=NotOlderThan"),
		get("a match without a version is refused", leases+"?resourceVersionMatch=Exact").statusOnly(),
		get("a version of the future is not there yet", outputs+"?resourceVersion=999999999999&resourceVersionMatch=NotOlderThan").statusOnly(),
		get("a version that is none is refused", outputs+"?resourceVersion=x").statusOnly(),
		get("an empty list is a list", mapFiles),
		{Name: "a method nobody knows is refused", Method: http.MethodPut, Path: outputs, Body: cfg(`"name":"a"`, someSpec), OnlyStatus: true},
	}
}
