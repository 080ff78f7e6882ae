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
// Receipts wait in a bounded queue, one an output. They are promoted in render
// order, and one that a newer receipt superseded is stored only when the intent
// names it. What is published is looked at again every minute, so that the
// current output and checkpoint are repaired when somebody changed them.
//
// One Publisher serves one term, in one goroutine, and is thrown away with it;
// only the files of one output are written side by side. Its limits: a
// checkpoint whose output the term never saw acknowledged cannot be repaired, a
// file that is being deleted holds up what needs it, and shared files are told
// by their owner, so each publication lists all files in the namespace.
package publish
