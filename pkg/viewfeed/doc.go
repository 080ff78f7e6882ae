// Package viewfeed keeps views up to date: it streams stored objects and
// Leases, verifies each as it arrives, and applies what follows to the caches
// that answer requests.
//
// Promises: content and key bytes are dropped before anything is kept, so the
// memory for a checkpoint does not depend on its size. A change re-judges only
// the views that depend on it, and a renewed Lease none. One goroutine at a
// time applies changes, each stream in its own order. What cannot be known
// (not permitted, not seen yet, not streamed yet) is Unknown, never damage.
//
// Limits: streams of different kinds have no common order, so a view can be
// behind by the time between them. A Secret without the label that the format
// gives Secrets is not in the stream; it is read when it is referenced, and
// again every half minute. Agents are not asked.
package viewfeed
