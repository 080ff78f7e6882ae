package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// moveTimeout bounds all operations of one apply, with the comparison after
// them. A reload is quicker than anything that takes longer.
const moveTimeout = 10 * time.Second

// settleTimeout bounds how long a worker may show an address from before.
const settleTimeout = time.Second

// movedWorker is a worker that was brought to a set without a reload, and the
// plan it had been loaded with. Any other worker of the same nonce was loaded
// from the set itself.
type movedWorker struct {
	workerID
	Loaded planRef `json:"loaded"`
}

// is reports that the worker which was seen is this one.
func (m *movedWorker) is(seen observation) bool {
	return m != nil && m.workerID == seen.worker()
}

// movable reports that the worker is known to run the plan that the operations
// start from, and that its version has all of them. The baseline was compared
// before: what is committed here is what the sender expected.
func (a *agent) movable(m *api.Manifest) bool {
	if m.Mode != api.ModeAuto || !m.InPlaceOps || a.scheduled != nil || a.drift != nil ||
		a.phase() != api.PhaseConfigured || a.workerStatus() != api.WorkerOwned ||
		a.committed() != (planRef{ID: m.ExpectedPrevPlanID, Proof: m.ExpectedPrevPlanProof}) {
		return false
	}
	kinds := a.kinds()
	for _, op := range m.Ops {
		if !kinds[op.Kind] {
			return false
		}
	}
	return true
}

// loadedPlan is what the current worker was loaded with, if it is ours.
func (a *agent) loadedPlan() planRef {
	committed := a.committed()
	if committed != (planRef{}) && a.current.Moved.is(a.seen) {
		return a.current.Moved.Loaded
	}
	return committed
}

// move has the set take the place of the current one beneath the worker that is
// about to be brought to it.
func (s *set) move(from *set, worker observation, loaded planRef) {
	s.inherit(from, worker)
	s.Moved = &movedWorker{workerID: worker.worker(), Loaded: loaded}
}

// move is one apply in place.
type move struct {
	ops   []plan.Operation
	ahead *ahead
}

// operate brings the worker to the finished set by operations and makes the set
// current. Without an outcome the caller has to reload: something was refused,
// is in doubt or is not what the set says, and the worker may be in between.
func (a *agent) operate(ctx context.Context, act activation, staged *set, m move) (*api.Result, []api.OpResult, error) {
	ctx = context.WithoutCancel(ctx)
	logger := klog.FromContext(ctx)
	act.finished = time.Now()
	p := act.pending
	p.Set = staged.ID
	// While the worker is still being compared with the set before.
	if err := a.prepareSwitch(ctx, p); err != nil {
		return nil, nil, err
	}
	results, err := a.attempt(ctx, staged, m)
	if err != nil {
		logger.Info("Could not change the worker in place, will reload", "plan", staged.PlanID, "operations", len(m.ops), "reason", err)
		a.forgo(staged.ID)
		return nil, results, nil
	}
	if err := a.switchPrepared(); err != nil {
		return nil, results, err
	}
	// Whoever was started in the meantime was loaded from one set or the other,
	// and carries the nonce of both. Its socket leads to the newest worker, so if
	// that is still the one, no other was compared or changed.
	if err := a.stillThere(ctx, staged.Moved); err != nil {
		logger.Info("Lost the worker that was changed in place, will reload", "plan", staged.PlanID, "reason", err)
		a.slots.hold(staged.ID)
		return nil, results, a.undo()
	}
	a.moved = movedServers{set: staged.ID, read: m.ahead.read()}
	act.ops = results
	return a.exchanged(ctx, act, staged, api.OutcomeRuntime), results, nil
}

// attempt carries out the operations and compares the worker with the set.
func (a *agent) attempt(ctx context.Context, staged *set, m move) ([]api.OpResult, error) {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	<-m.ahead.done // it has a time limit of its own
	if m.ahead.err != nil {
		return nil, m.ahead.err
	}
	results, err := m.ahead.operator.run(ctx, m.ops)
	if err != nil {
		return results, err
	}
	return results, a.confirm(ctx, staged, m)
}

// confirm compares the changed worker with the set. HAProxy 3.0 answers an address
// and takes it up a moment later, so that one may be waited for.
func (a *agent) confirm(ctx context.Context, staged *set, m move) error {
	var deadline time.Time
	if slices.ContainsFunc(m.ops, func(op plan.Operation) bool { return op.Kind == plan.OpServerAddress }) {
		deadline = time.Now().Add(settleTimeout)
	}
	for wait := pollStart; ; wait *= 2 {
		// Its own socket, which led to it just now, is the shorter way.
		err := a.compareAt(ctx, staged, view{socket: a.haproxy.worker, servers: m.ahead.read(), only: &m.ahead.only})
		var drift *driftError
		if !errors.As(err, &drift) || drift.invariant != violationServers || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// stillThere looks again, at both sockets, and requires that worker.
func (a *agent) stillThere(ctx context.Context, worker *movedWorker) error {
	seen, err := a.haproxy.observeBoth(ctx)
	a.record(ctx, seen, err)
	if err == nil && !worker.is(seen) {
		err = fmt.Errorf("worker %d is another one", seen.Info.PID)
	}
	return err
}

// renounce gives a finished set a nonce of its own, since it will be loaded.
func (a *agent) renounce(s *set) error {
	s.Nonce, s.Moved = "", nil
	meta, err := s.encode()
	if err != nil {
		return err
	}
	folder := a.layout.set(s.ID)
	if err := a.disk.replace(filepath.Join(folder, setNonce), []byte(nonceConfig(a.layout, s.nonce()))); err != nil {
		return fmt.Errorf("writing %s: %w", setNonce, err)
	}
	if err := a.disk.replace(filepath.Join(folder, setMeta), meta); err != nil {
		return fmt.Errorf("writing %s: %w", setMeta, err)
	}
	return nil
}
