package conformance

import "fmt"

// Reasons that several differences share.
const (
	// A view is computed, so nothing but the present state can be computed again;
	// and what was computed from one state of the inputs is not kept.
	noPast = "views have no past: Exact is answered at the present version and is 410 at any other, as a built-in resource does after compaction"
	// The sources of views have no common order, so their versions are of one
	// process, and none but what it issued means anything to it.
	notIssued = "versions are of one history, and what it did not issue may be of another replica or of before a restart: 410 makes clients list again, where silence would have them wait for a version that never comes"
	// kube-apiserver does not find out before storage parses the version.
	malformed = "a malformed version is the client's mistake, so it is 400 and not the 500 of kube-apiserver, which clients would try again"
	// Only kinds with generated protobuf can be sent so, as with custom resources.
	noProtobuf = "views have no protobuf, as custom resources have none: who takes JSON too gets that, and who does not is told with 406"
	// What serves cannot write.
	readOnly = "views are computed and cannot be written; without the verbs, the garbage collector, quotas and the deletion of namespaces leave them alone"
)

// differences are all that may differ, by step, exactly as it differs.
func differences() map[string]difference {
	const (
		gone   = "410 Expired"
		bad    = "400 BadRequest"
		denied = "405 MethodNotAllowed"
		// metadataOnly prefers protobuf for metadata, but takes no JSON form of it.
		metadataOnly = `"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"`
	)
	found := map[string]difference{
		"exactly at an earlier version":            {"200 KINDList [a=2 b=2 c=1]", gone, noPast},
		"exactly at the version of the first list": {"200 KINDList []", gone, noPast},
		"at version 1, which is of nobody":         {"200 KINDList [a=1 b=2 c=1]", gone, notIssued},
		"a watch from a version from the future":   {"", "ERROR " + gone, notIssued},
		"a watch from a malformed version":         {"500 ", bad, malformed},
		"a streaming list at a malformed version":  {"500 ", bad, malformed},
		"get at a malformed version":               {"500 ", bad, malformed},
		"a limit":                                  {"200 KINDList [a=1] continued", "200 KINDList [a=1 b=2 c=1]", "a server may return everything, and ours holds all in memory: pages would have to come from a past that views do not have"},
		"create":                                   {"422 Invalid", denied, readOnly},
		"replace":                                  {"400 BadRequest", denied, readOnly},
		"patch":                                    {"415 UnsupportedMediaType", denied, readOnly},
		"delete":                                   {"404 NotFound", denied, readOnly},
		"delete all that match nothing":            {"200 KINDList []", denied, readOnly},
		"verbs in discovery":                       {"KIND namespaced:true [create delete deletecollection get list patch update watch]", "KIND namespaced:true [get list watch]", readOnly},
		"GET ITEMS with Accept " + metadataOnly:    {"200 " + protobuf, "200 application/json", noProtobuf},
		"GET ITEMS/a with Accept " + metadataOnly:  {"406 application/json", "200 application/json", "a list form of one object is refused by the first clause there; here that clause is no choice, so the second one, which is plain JSON, is taken"},
	}
	const listed = protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	for accept, ours := range map[string]string{
		protobuf:                       "406 application/json",
		protobuf + ",application/json": "200 application/json",
		listed + ",application/json":   "200 application/json",
		listed + "," + asMetadataList + ",application/json": "200 application/json",
	} {
		found[fmt.Sprintf("GET ITEMS?watch=true&timeoutSeconds=1 with Accept %q", accept)] = difference{"200 " + protobuf, ours, noProtobuf}
	}
	for _, items := range []string{"ITEMS", "ITEMS/a"} {
		found["GET "+items+` with Accept "`+protobuf+`"`] = difference{"200 " + protobuf, "406 application/json", noProtobuf}
		found["GET "+items+` with Accept "`+protobuf+`,application/json"`] = difference{"200 " + protobuf, "200 application/json", noProtobuf}
	}
	return found
}
