package sim

import (
	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// checker watches a schedule and reports what breaks its invariant. changed
// runs under the store's lock; the others run one at a time too, because one
// item moves at a time.
type checker interface {
	// changed sees every committed change.
	changed(c fakeapi.Change)
	// sent sees every request as it enters the network.
	sent(i *item)
	// replied sees every answer as it reaches its process.
	replied(process, target string, body []byte)
	// begun sees every apply as it reaches its pod.
	begun(process, pod string, m *api.Manifest)
	// loaded sees every output that a pod took. The fleet's lock is held.
	loaded(l load)
	// acknowledged sees every successful result as it reaches its process.
	acknowledged(process string, m *api.Manifest)
	// outranked sees every apply that a pod refused because it heard of a later one.
	outranked(process string, m *api.Manifest)
}

// sees is a checker that looks at nothing, for others to embed.
type sees struct{}

func (sees) changed(fakeapi.Change)              {}
func (sees) sent(*item)                          {}
func (sees) replied(string, string, []byte)      {}
func (sees) begun(string, string, *api.Manifest) {}
func (sees) loaded(load)                         {}
func (sees) acknowledged(string, *api.Manifest)  {}
func (sees) outranked(string, *api.Manifest)     {}

// Invariants of the design's fencing section, as violations name them.
const (
	invariantTerms      = "invariant 1 (terms and recovery)"
	invariantIntent     = "invariant 2 (intent before apply)"
	invariantPointers   = "invariant 3 (promoted pointers are complete)"
	invariantCollection = "invariant 4 (collection)"
	invariantConfigured = "invariant 5 (configured pods and recovery)"
	invariantDrain      = "invariant 6 (drain and lost leases)"
	invariantEpochs     = "invariant 7 (epochs)"
	invariantLiveness   = "liveness"
	invariantLatch      = "latch (no publication while blocked)"
	invariantRetention  = "retention"
)

func newCheckers(w *world) []checker {
	leases := &leaseHistory{w: w}
	w.leases = leases
	w.drains = &drainChecker{w: w, acked: map[string]map[string]bool{}, refused: map[string]map[string]bool{}}
	pointers := newPointerChecker(w)
	w.counter = &counter{leases: leases, pointers: pointers}
	return []checker{
		leases,
		&fleetChecker{w: w, leases: leases},
		pointers,
		&writeChecker{w: w, read: map[string]lookAtElection{}},
		w.drains,
		&agreementChecker{w: w},
		&latchChecker{w: w, pointers: pointers, blocked: map[string]int{}},
		&retentionChecker{w: w, leases: leases, pointers: pointers},
		w.counter,
	}
}
