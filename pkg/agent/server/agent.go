package server

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// Names of what must always hold.
const (
	violationForeignWorker = "foreign_worker"
	violationTree          = "disk_is_the_desired_set"
	violationJournal       = "journal_readable"
	violationScheduled     = "scheduled_set_is_whole"
)

// watchInterval is how often the worker is looked at when nothing happens, to
// notice a restarted master or a worker that is not ours.
const watchInterval = time.Second

// agent is the state machine. Everything below lock is changed only while lock
// is held; whoever just reports reads the published snapshot instead.
type agent struct {
	config  Config
	layout  layout
	disk    *disk
	slots   *slots
	haproxy *supervisor
	metrics *metrics

	// lock serialises applies, announcements, verified reads and the watch.
	// A channel, because whoever waits for it must be able to give up.
	lock chan struct{}

	journal *journal
	amended time.Time // when a worker was last loaded anew for a switch that was taken back
	dirty   bool      // the journal in memory is ahead of the one on disk
	moved   movedServers
	current *set // nil when the committed set's description is unreadable
	tree    error
	seen    observation
	seenErr error
	master  lineage // the last one that answered
	// lastReload paces reloads, whatever their outcome.
	lastReload time.Time
	scheduled  *set          // what journal.Scheduled names
	wake       chan struct{} // tells the watch that a reload was scheduled
	stopping   stopAttempt
	flags      []string    // how the master was started, nil when that is not seen
	masterPeer int64       // the master's PID as it is seen from here
	looks      uint64      // of the watch
	drift      *driftError // what the last comparison with the worker found

	started   chan struct{} // closed once recovery is done and HAProxy answered
	published atomic.Pointer[snapshot]
}

func newAgent(config Config, l layout, d *disk) *agent {
	return &agent{
		config: config, layout: l, disk: d, slots: newSlots(d, l),
		haproxy: &supervisor{master: l.masterSocket(), worker: l.workerSocket(), wait: reloadWait},
		metrics: newMetrics(config.Registry),
		lock:    make(chan struct{}, 1),
		started: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// acquire waits for the lock as long as the context allows.
func (a *agent) acquire(ctx context.Context) error {
	select {
	case a.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *agent) release() { <-a.lock }

func (a *agent) ready() bool {
	select {
	case <-a.started:
		return true
	default:
		return false
	}
}

// watch looks at the worker from time to time, and carries out the scheduled
// reload when it is due, until the context ends.
func (a *agent) watch(ctx context.Context) {
	timer := time.NewTimer(watchInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
			if a.isDue() {
				a.fire(ctx)
				break
			}
			select {
			case a.lock <- struct{}{}:
				a.look(ctx)
				a.release()
			default: // an apply looks for itself
			}
		}
		timer.Reset(a.untilNext())
	}
}

// look refreshes what is known about the worker. A worker with the committed
// set's nonce and verified files is ours whoever started it; any other is
// foreign.
func (a *agent) look(ctx context.Context) {
	before := a.master
	seen, err := a.haproxy.observe(ctx)
	a.record(ctx, seen, err)
	a.amend(ctx)
	if before.MasterPID != 0 && a.master != before && a.workerStatus() == api.WorkerOwned {
		// Not a reload of ours, since those are recorded under the same lock.
		if err := a.verify(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Could not record what a restarted master was loaded from")
		}
	}
	a.weigh()
	if a.dirty {
		if err := a.save(); err != nil {
			klog.FromContext(ctx).Error(err, "Could not write the journal, will try again")
		}
	}
	a.publish()
}

// lineage tells one master's life from the next. In a container of its own
// every master has the same PID, and counts its reloads from zero.
type lineage struct {
	MasterPID, Reloads, Worker, WorkerStart int64
}

// restarted reports that another master answers than the one before.
func (l lineage) restarted(before lineage) bool {
	switch {
	case before.MasterPID == 0:
		return false
	case l.MasterPID != before.MasterPID, l.Reloads < before.Reloads:
		return true
	}
	return l.Reloads == before.Reloads && (l.Worker != before.Worker || l.WorkerStart != before.WorkerStart)
}

func (a *agent) record(ctx context.Context, seen observation, err error) {
	before := a.workerStatus()
	pid := a.seen.Info.PID
	a.seen, a.seenErr = seen, err
	after := a.workerStatus()
	logger := klog.FromContext(ctx)
	if err == nil {
		next := lineage{MasterPID: seen.MasterPID, Reloads: seen.Reloads, Worker: seen.Info.PID, WorkerStart: seen.Info.StartTime}
		if next.restarted(a.master) {
			a.metrics.masterRestarts.Inc()
			logger.Info("Found that HAProxy's master was started anew", "master", next.MasterPID, "worker", next.Worker)
		}
		if next != a.master {
			a.drift = nil // it was another worker's
			a.flags, _ = a.haproxy.startFlags(ctx)
			a.masterPeer = a.haproxy.peer(ctx)
		}
		a.master = next
	}
	a.metrics.see(seen)
	switch {
	case before != after && after == api.WorkerForeign:
		a.metrics.violations.WithLabelValues(violationForeignWorker).Inc()
		logger.Info("Found a worker that was not loaded with the committed set", "worker", seen.Info.PID, "set", a.journal.Current)
	case before != after && after == api.WorkerAbsent:
		logger.Info("Lost sight of the worker", "supervisor", seen.Supervisor, "reason", err)
	case after == api.WorkerOwned && pid != seen.Info.PID:
		logger.Info("Recognised a worker of the committed set", "worker", seen.Info.PID, "set", a.journal.Current)
	}
}

// nonce is what a worker of the committed set carries.
func (a *agent) nonce() string {
	if a.current == nil {
		return nonceOf(a.journal.Current)
	}
	return a.current.nonce()
}

func (a *agent) workerStatus() api.WorkerStatus {
	switch {
	case a.seenErr != nil || a.seen.Info.PID == 0:
		return api.WorkerAbsent
	case a.seen.Info.Description != a.nonce(), a.journal.Undone != nil && a.seen.worker() != *a.journal.Undone:
		return api.WorkerForeign
	}
	return api.WorkerOwned
}

func (a *agent) phase() api.Phase {
	switch {
	case a.journal.Disowned || a.current == nil || a.tree != nil || a.workerStatus() == api.WorkerForeign:
		return api.PhaseDisowned
	case a.current.isOutput() || a.journal.Scheduled != nil:
		return api.PhaseConfigured
	}
	return api.PhaseBootstrap
}

// committed is the plan of the current set, empty when that is unknown.
func (a *agent) committed() planRef {
	if a.phase() != api.PhaseConfigured {
		return planRef{}
	}
	return a.current.ref()
}

// applied is the plan this pod has taken, empty when that is unknown. A
// scheduled one is known whatever runs meanwhile: its reload makes it so.
func (a *agent) applied() planRef {
	if a.journal.Scheduled != nil {
		return a.journal.Scheduled.Plan
	}
	return a.committed()
}

func (a *agent) standing() standing {
	return standing{phase: a.phase(), applied: a.applied(), token: a.journal.token()}
}

// save writes the journal; a failure leaves it to be written later.
func (a *agent) save() error {
	a.dirty = true
	if err := saveJournal(a.disk, a.layout, a.journal); err != nil {
		return err
	}
	a.dirty = false
	return nil
}

// verify hashes the committed set again. What it finds is remembered: files
// that were changed once may have been loaded in between.
func (a *agent) verify(ctx context.Context) error {
	before := a.tree
	a.tree = a.checkTree()
	if a.tree == nil || before != nil {
		return nil
	}
	a.metrics.violations.WithLabelValues(violationTree).Inc()
	klog.FromContext(ctx).Error(a.tree, "The files on disk are not the committed set", "set", a.journal.Current)
	a.journal.Disowned = true
	return a.save()
}

func (a *agent) checkTree() error {
	target, err := os.Readlink(a.layout.current())
	if err != nil {
		return err
	}
	if target != currentTarget(a.journal.Current) {
		return &linkError{Target: target, Want: currentTarget(a.journal.Current)}
	}
	if a.current == nil {
		return errNoSet
	}
	return verifyTree(a.layout, a.current)
}
