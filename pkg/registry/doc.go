// Package registry is the REST storage of the views: one generic, read-only
// storage over a view cache. What differs between resources (names, columns,
// subresources) is in its subpackages.
//
// Limits: it decides nothing about views. It keeps no state of its own, so a
// list and the watch that follows it always come from the same history.
package registry
