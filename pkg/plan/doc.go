// Package plan is the structure that an output declares about itself: the
// sections of its configuration, the backends they were generated from, map
// and crt-list entries, and the file set. It promises the canonical JSON form
// of a plan to the byte, the plan's ID, and a reader for plans that somebody
// else wrote.
//
// A plan holds no configuration text, no file content and no key material.
// Its digests are xxHash64: they find accidents, not attackers; whoever needs
// more uses the SHA-256 evidence of package checkpoint.
//
// The package is pure: no clock, no goroutine, no log, nothing of Kubernetes.
package plan
