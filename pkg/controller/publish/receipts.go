package publish

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// maxReceipts bounds the queue: each receipt holds a whole output in memory.
const maxReceipts = 16

// outputKey names an output.
type outputKey struct{ planID, checksum string }

// receipt is a pod's proof that its worker runs an output.
type receipt struct {
	output *checkpoint.Output
	key    outputKey
	entry  checkpoint.PodEntry
	// sequence is the render order of the newest acknowledgement.
	sequence uint64
	// seen is the render order of the newest time that the output was accepted or
	// acknowledged. An intent may name it again before any pod acknowledges it
	// again.
	seen uint64
	// stored says that its checkpoint is promoted where this receipt belongs, and
	// refused that the API server will never take it.
	stored, refused bool
	// name is the checkpoint's, once stored.
	name string
}

// receipts is the queue of what pods acknowledged, one receipt an output. What
// a newer receipt superseded stays until its place is needed, for an intent may
// return to it.
type receipts struct {
	queue []receipt
	// newest is the output whose checkpoint this term put in front.
	newest outputKey
	// order is the render order of promoted checkpoints by name, as far as this
	// term knows it.
	order map[string]uint64
	// intended is the output that the intent named when it was last read.
	intended outputKey
	// unsure says that an output was queued since the intent was read.
	unsure bool
}

func (q *receipts) index(key outputKey) int {
	return slices.IndexFunc(q.queue, func(r receipt) bool { return r.key == key })
}

// keyOf is the key of an output. One that is queued is not hashed again: every
// pod of a fleet acknowledges the same output.
func (q *receipts) keyOf(o *checkpoint.Output) outputKey {
	for i := range q.queue {
		if q.queue[i].output == o {
			return q.queue[i].key
		}
	}
	return outputKey{planID: o.Plan.ID, checksum: o.Checksum()}
}

// put takes a receipt and tells how many had to go for it. The intended output's
// never goes: the intent is read after each new output, and one that is intended
// since was accepted after whatever is dropped here.
func (q *receipts) put(r receipt) (dropped int) {
	r.seen = max(r.seen, r.sequence)
	if i := q.index(r.key); i >= 0 {
		was := &q.queue[i]
		was.seen = max(was.seen, r.seen)
		if r.sequence > was.sequence {
			was.sequence, was.entry = r.sequence, r.entry
			if was.stored {
				q.order[was.name] = r.sequence
			}
			// Its pointer must move to the front, unless it is there.
			was.stored = was.stored && q.newest == r.key
		}
		return 0
	}
	q.queue, q.unsure = append(q.queue, r), true
	if len(q.queue) <= maxReceipts {
		return 0
	}
	oldest := -1
	for i := range q.queue {
		if q.queue[i].key != q.intended && (oldest < 0 || q.queue[i].seen < q.queue[oldest].seen) {
			oldest = i
		}
	}
	stored := q.queue[oldest].stored
	q.queue = slices.Delete(q.queue, oldest, oldest+1)
	if stored {
		return 0
	}
	return 1
}

// accepted notes that an output may become the intent again.
func (q *receipts) accepted(key outputKey, sequence uint64) {
	if i := q.index(key); i >= 0 {
		q.queue[i].seen = max(q.queue[i].seen, sequence)
	}
}

// last is the newest receipt by render order that the API server may take, or
// nil.
func (q *receipts) last() *receipt {
	var last *receipt
	for i := range q.queue {
		if r := &q.queue[i]; !r.refused && (last == nil || r.sequence > last.sequence) {
			last = r
		}
	}
	return last
}

// lost tells whether the newest receipt of all is one that was refused.
func (q *receipts) lost() bool {
	last := q.last()
	return slices.ContainsFunc(q.queue, func(r receipt) bool {
		return r.refused && (last == nil || r.sequence > last.sequence)
	})
}

// fresh tells whether there may be something to store: the newest receipt, or
// an older one that the intent names or was accepted again since.
func (q *receipts) fresh() bool {
	last := q.last()
	return slices.ContainsFunc(q.queue, func(r receipt) bool {
		return !r.stored && !r.refused &&
			(r.sequence == last.sequence || r.key == q.intended || r.seen > last.sequence)
	})
}

// wanted are the receipts whose checkpoints must be stored and sound, in render
// order: what the intent names and the newest. Others are superseded.
func (q *receipts) wanted() []receipt {
	last := q.last()
	var wanted []receipt
	for _, r := range q.queue {
		if !r.refused && (r.key == q.intended || r.key == last.key) {
			wanted = append(wanted, r)
		}
	}
	slices.SortFunc(wanted, func(a, b receipt) int { return cmp.Compare(a.sequence, b.sequence) })
	return wanted
}

// position is where a checkpoint of that render order belongs among pointers:
// behind what this term knows to be newer.
func (q *receipts) position(pointers []checkpoint.Pointer, sequence uint64) int {
	i := 0
	for i < len(pointers) && q.order[pointers[i].Name] > sequence {
		i++
	}
	return i
}

// refuse notes that an output will never be stored.
func (q *receipts) refuse(key outputKey) {
	if i := q.index(key); i >= 0 {
		q.queue[i].refused = true
	}
}

// promoted notes where the checkpoint of a receipt is among the pointers.
func (q *receipts) promoted(r receipt, name string, pointers []checkpoint.Pointer) {
	if q.order == nil {
		q.order = map[string]uint64{}
	}
	q.order[name] = r.sequence
	maps.DeleteFunc(q.order, func(name string, _ uint64) bool {
		return !slices.ContainsFunc(pointers, func(p checkpoint.Pointer) bool { return p.Name == name })
	})
	if len(pointers) > 0 && pointers[0].Name == name {
		q.newest = r.key
	}
	for i := range q.queue {
		was := &q.queue[i]
		switch {
		case was.key == r.key:
			// An acknowledgement since, in a later render, may still have to move it.
			was.stored, was.name = was.sequence == r.sequence || q.newest == r.key, name
		case q.newest == r.key && was.sequence > r.sequence:
			was.stored = false
		}
	}
	// What is stored is needed for repairs only while it is current.
	q.queue = slices.DeleteFunc(q.queue, func(r receipt) bool {
		return r.stored && r.key != q.newest && r.key != q.intended
	})
}

// failed notes that the checkpoint of a receipt is not as it should be.
func (q *receipts) failed(key outputKey) {
	if i := q.index(key); i >= 0 {
		q.queue[i].stored = false
	}
}
