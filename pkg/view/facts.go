package view

import (
	"time"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// Template is what a view needs of a HAProxyTemplateConfig.
type Template struct {
	Namespace, Name, UID string
	Created              time.Time
	Labels               map[string]string
	// Standalone: leader election is off, so there is no leader-election Lease.
	Standalone bool
	// ElectionName is the leader-election Lease that it names, or empty.
	ElectionName string
}

// Output is what a view needs of a template's ordinary output.
type Output struct {
	// Pointers are the committed checkpoint pointers, newest first.
	Pointers []checkpoint.Pointer
	// Pods are the per-pod entries.
	Pods []checkpoint.PodEntry
}

// PointerTo is the promoted pointer that names a checkpoint; nil without one, or
// without an output.
func (o *Output) PointerTo(name string) *checkpoint.Pointer {
	if o == nil {
		return nil
	}
	for i := range o.Pointers {
		if o.Pointers[i].Name == name {
			return &o.Pointers[i]
		}
	}
	return nil
}

// Leases is what a view needs of the two Leases of a template.
type Leases struct {
	// Readable is false without a right to read Leases.
	Readable                   bool
	ElectionName, RetainedName string
	Election                   fencing.ElectionLease
	Retained                   fencing.RetainedLease
	// Acquired is when the present leader took the leader-election Lease.
	Acquired time.Time
	// Recorded is when the retained-state Lease was last written.
	Recorded time.Time
}

// latest returns the newest of some stored times.
func latest(times ...time.Time) time.Time {
	var newest time.Time
	for _, t := range times {
		if t.After(newest) {
			newest = t
		}
	}
	return newest
}
