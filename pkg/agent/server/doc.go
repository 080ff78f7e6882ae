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
// Reloads are paced: one that is wanted too soon is scheduled, with the newest
// output that came by then, and the set that is current stays the proven one
// until it happens. Workers of earlier loads are bounded: at the limit the
// connections of the oldest are closed, and the reload waits for its end.
//
// A verified read hashes the files, and then reads the worker again as far as its
// version shows: maps, lists, certificates, servers. It excludes applies, since
// in the middle of one the new worker would look like somebody else's.
//
// Its limits: every change is a reload (no runtime operations). Private keys are
// not shown by HAProxy and compared by their certificates alone. Where the
// configuration has conditions (".if"), servers are not compared. The agent does
// not start HAProxy, and asks the running one for its version.
package server
