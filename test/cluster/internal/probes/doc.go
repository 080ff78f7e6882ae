// Package probes decides and runs container probes: it asks a container how it
// is, at the intervals of its specification, and tells when the answer changed.
//
// Counting is pure (Tally); asking is Prober, which uses the kubelet's own
// HTTP, TCP and gRPC probes. One worker runs per probe and start of a container.
package probes
