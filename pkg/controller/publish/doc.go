// Package publish stores what a term renders and what its pods acknowledge.
//
// The ordinary output (ADR-0031) is the view of what is rendered: files are
// content-addressed objects that it owns, and one status update commits their
// references. A checkpoint (ADR-0033) is what recovery uses: it is written only
// after a pod's receipt, read back and verified, and only then named by the
// pointer list of the ordinary output. Interrupted at any write, the previous
// pointers stay usable.
//
// Every write reads its target, checks the term, and carries the
// resourceVersion that was read; a conflict starts over at the read. Deletions
// carry UID and resourceVersion. What the API server refuses for good is never
// sent twice, and CheckSize finds it out before an output becomes the intent.
//
// One Publisher serves one term, in one goroutine, and is thrown away with it.
// Its limits: it sees shared files by the label it writes, so those that HAPTIC
// 0.7 wrote under a label of its own stay until their template goes.
package publish
