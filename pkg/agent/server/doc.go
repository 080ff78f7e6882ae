// Package server is the agent: it owns the file tree of a proxy pod, HAProxy's
// two sockets, and every reload.
//
// It promises:
//
//   - HAProxy's container may restart at any moment and finds one whole set. A
//     set is written into a folder of its own and becomes current by one rename
//     of the symlink "current".
//   - An apply is answered as a reload only after a worker that the master
//     lists as current was asked and carried the nonce of that very set. That a
//     socket answered proves nothing.
//   - An output that does not run is rolled back, on disk as well.
//   - Nothing is written for a request that is fenced, addressed to another pod
//     or template, or malformed.
//   - What the agent does not know it reports as unknown: a worker loaded with
//     something else, files that changed, a state that was lost.
//   - No key byte reaches a log, an error, a metric or the state.
//
// The nonce of a set is its random identifier. It reaches HAProxy through a
// second configuration file, nonce.cfg, which is a symlink through "current" to
// a file beside the set's own: configuration and nonce change in one step, so a
// worker can never carry the nonce of a set that it was not loaded from.
//
// Its limits: every change is a reload (no runtime operations), an apply that
// comes too soon after the last reload waits instead of being scheduled, and
// old workers are left to HAProxy. The agent does not start HAProxy, and asks
// the running one for its version.
package server
