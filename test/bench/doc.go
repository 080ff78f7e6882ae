// Command bench measures the product against its performance targets, and ends
// with one line for each target it covers:
//
//	target NAME value V bound B ok
//	target NAME value V bound B MISS
//
// It runs inside the network of a development cluster that holds the API server
// and nothing else of the product; hack/bench.sh makes one. Stored objects are
// made by the product's own renderer and checkpoint code, and are written as
// they would be by a publisher, for a template that nobody serves.
//
// Promises: all numbers of a run come from one machine in that run, and what is
// compared runs under the same conditions, in turns. A missed target is told by
// its line and not by the exit code; the exit code tells whether everything
// could be measured. Before anything is measured the views must say that all
// checkpoints verify.
//
// Limits: a machine that is busy with other things changes latencies and memory
// in use, and ratios less so. Client and servers share the machine.
package main
