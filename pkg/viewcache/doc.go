// Package viewcache keeps computed views in one linear, versioned, bounded
// history and answers get, list and watch from it.
//
// Promises: a list and a watch come from the same history under one lock, so a
// watch from a list's version misses nothing and repeats nothing. Versions rise
// strictly, over restarts too. A version that this process did not issue, or
// that left the history, is answered as expired, never resumed by guess; nor is
// one that a standby issued, by anybody. A cache that is restarted with another
// counter is a new process to its clients, without a gap in its answers. A slow
// watcher delays nobody and is closed within a bound. Objects handed out are
// the caller's own at the top level; nothing below may be changed.
//
// Limits: there is one writer at a time; nothing is stored; the package knows
// nothing about HTTP, authorization or where views come from.
package viewcache
