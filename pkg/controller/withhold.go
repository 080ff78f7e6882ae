package controller

import (
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
)

// maxUndecided bounds the outputs whose verdict is remembered. Those beyond it
// were replaced before they ever became the intent.
const maxUndecided = 64

// withheld keeps receipts back until their output has passed HAProxy's check: a
// pod may prove that it runs an output before that, and a checkpoint must not be
// made of it. It begins a term without any.
type withheld struct {
	mu      sync.Mutex
	outputs map[uint64]*withheldOutput // by sequence
}

type withheldOutput struct {
	passed bool
	// receipts are the newest of each pod, by UID.
	receipts map[string]deploy.Report
}

// begin makes room for the receipts of an output that is about to be dispatched.
func (w *withheld) begin(sequence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outputs == nil {
		w.outputs = map[uint64]*withheldOutput{}
	}
	w.outputs[sequence] = &withheldOutput{receipts: map[string]deploy.Report{}}
	if len(w.outputs) > maxUndecided {
		delete(w.outputs, slices.Min(slices.Collect(maps.Keys(w.outputs))))
	}
}

// mayPublish is false for a receipt that it keeps, or that nobody may have.
func (w *withheld) mayPublish(r deploy.Report) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, known := w.outputs[r.Sequence]
	if !known {
		return false
	}
	if !o.passed {
		o.receipts[r.Pod.UID] = r
	}
	return o.passed
}

// release gives the receipts of an output that passed. Later ones are not kept.
func (w *withheld) release(sequence uint64) []deploy.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, known := w.outputs[sequence]
	if !known {
		return nil
	}
	kept := slices.Collect(maps.Values(o.receipts))
	o.passed, o.receipts = true, nil
	return kept
}

// forgetBefore drops outputs of which no more receipts can come, because a later
// one is the intent now.
func (w *withheld) forgetBefore(sequence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.outputs, func(other uint64, _ *withheldOutput) bool { return other < sequence })
}
