// Package fakeapi is a strict API server in memory, for tests and for the
// simulation in virtual time. Real clientsets, dynamic clients and informers
// reach it through an in-process http.RoundTripper: no socket, and no
// goroutine of its own; whoever reads a watch waits for its events himself. So
// it can live in a synctest bubble, with Options.Now virtual there.
//
// It serves our CRDs, read from manifests/base/crd, and Leases, Pods, Secrets,
// ConfigMaps and Events. Custom resources go through the real server's own
// strategy, schema, defaulting, pruning and validation, everything through the
// real field managers. Script is a list of requests whose answers are held
// against recorded ones of kube-apiserver 1.37.2 in a unit test, and against a
// running one in the integration test. After a change of the CRDs or the script,
// record them anew from a development cluster that has the CRDs and an empty
// namespace "fakeapi-contract":
//
//	KUBECONFIG=... go test ./test/fakeapi -run Answers -update
//
// What differs from the real server, on purpose:
//   - Every namespace exists. There is no authorization, admission, quota,
//     warning header or aggregated discovery, and OpenAPI of our CRDs alone.
//   - UIDs and generated names are counted instead of drawn, so that a
//     simulation can be repeated.
//   - Garbage is collected when a test says so (Options.AutoGC, CollectGarbage),
//     in the background only. Owners of kinds that are not served count as
//     living. A reference to a lost owner stays beside one to a living owner.
//   - Built-in kinds get the rules and defaults that our code can meet, not
//     all; a pod's spec is stored as sent and never changes. Their size counts
//     as JSON, so etcd's bound is met a little early.
//   - A list is always whole, and always of the present: limit is ignored, and
//     resourceVersionMatch=Exact with an older version is 410. A version of the
//     future is refused at once instead of after three seconds.
//   - With Options.TrackFromApply, managedFields begin with the first apply.
//   - A slow watch is never closed. A watch without timeoutSeconds ends after
//     45 minutes. Bookmarks come each minute if anything changed, and at the end.
//
// Refused with 501 and a message that says so, because a test would otherwise
// believe it done: dry runs, strict field validation, continue tokens, orphaning
// and foreground deletion. Deletion of collections is 405. Only JSON is spoken.
package fakeapi
