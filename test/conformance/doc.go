// Package conformance puts one script of requests to our API server and to a
// built-in resource of a kube-apiserver, and compares what clients see. It is
// how "behaves as a built-in API" is meant: where both can answer, both must
// answer alike, or the difference stands in a table with its reason.
//
// Promises: every step of the script is put to both. A difference that the table
// does not list fails the test, and so does one that it lists and that is gone,
// or that looks otherwise than listed.
//
// Limits: the built-in resource is Leases, which nothing else writes in the
// namespace of the test. Ours is asked past the aggregator, which passes
// requests on as they are. Versions are compared by their relations only, since
// every server has its own. What a client cannot provoke (slow watchers, errors
// in mid-stream, goroutines left behind) is tested in pkg/viewcache, and what
// needs a server that is not ready, or ends, in pkg/apiserver.
//
// The tests need a development cluster's binaries in HOLDFAST_BIN, start a
// cluster of their own and delete it: run make conformance.
package conformance
