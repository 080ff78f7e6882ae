package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

const (
	// announceLimit bounds one announcement: an agent that is unreachable must
	// not keep the fleet without a leader.
	announceLimit = 5 * time.Second
	// maxAnnouncements bounds how often floors may raise the epoch at the start
	// of one term. Each round goes above all floors of the one before.
	maxAnnouncements = 4
	// maxRestartDelay bounds the wait after terms that were refused at once.
	maxRestartDelay = 30 * time.Second
)

// errOver ends a term's context when nothing else did.
var errOver = errors.New("the term is over")

// Election makes this process a leader again and again, until it is stopped.
type Election struct {
	settings  Settings
	leases    LeaseClient
	templates TemplateClient
	leader    Leader
	metrics   *Metrics
}

// New checks the settings. Leases must be those of the settings' namespace.
func New(settings Settings, leases LeaseClient, templates TemplateClient, leader Leader, metrics *Metrics) (*Election, error) {
	if err := settings.validate(); err != nil {
		return nil, err
	}
	return &Election{settings: settings, leases: leases, templates: templates, leader: leader, metrics: metrics}, nil
}

// Run leads whenever it can. When ctx ends it drains, releases the Lease and
// returns nil; nothing it started runs on. A lost or refused term is followed
// by another attempt after a bounded wait. A standalone process that loses its
// claim gets an error, and must exit: another one took over.
func (e *Election) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("lease", e.settings.LeaseName, "holder", e.settings.Identity)
	ctx = klog.NewContext(ctx, logger)
	if e.settings.Standalone {
		return e.runAlone(ctx)
	}
	delay := e.restartDelay()
	for {
		led, err := e.campaign(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if led {
			delay = e.restartDelay()
		}
		pause := delay.Step()
		logger.Info("Ended a term, will stand again", "cause", err, "delay", pause)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// restartDelay starts at the retry period, at which followers ask as well.
func (e *Election) restartDelay() wait.Backoff {
	return wait.Backoff{Duration: e.settings.RetryPeriod, Factor: 2, Jitter: 0.2, Steps: 1 << 10, Cap: maxRestartDelay}
}

// serve runs one term that has been won: claim, announce, lead, and on a
// graceful stop drain. It returns when all of the term's work has ended. led is
// false when the term was refused before it began.
func (e *Election) serve(ctx, termCtx context.Context, t *Term) (led bool, err error) {
	startCtx, cancel := context.WithCancel(termCtx)
	stopStart := context.AfterFunc(ctx, cancel)
	err = t.start(startCtx, e.templates)
	if err == nil {
		err = e.announce(startCtx, t)
	}
	stopped := !stopStart()
	cancel()
	if err != nil || stopped {
		e.metrics.Terms.WithLabelValues(endRefused).Inc()
		t.end(errOver)
		return false, err
	}

	logger := klog.FromContext(ctx)
	logger.Info("Started a term", "epoch", t.Epoch())
	e.metrics.Leading.Set(1)
	defer e.metrics.Leading.Set(0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.leader.Lead(klog.NewContext(termCtx, logger.WithValues("epoch", t.Epoch())), t)
	}()
	end := endLost
	select {
	case <-ctx.Done():
		drainCtx, cancel := context.WithTimeout(termCtx, DrainLimit)
		e.leader.Drain(drainCtx, t)
		cancel()
		if termCtx.Err() == nil {
			end = endDrained
		}
	case <-termCtx.Done():
	case <-ended:
	}
	t.end(errOver)
	<-ended
	e.metrics.Terms.WithLabelValues(end).Inc()
	return true, context.Cause(termCtx)
}

// announce tells the epoch to the fleet, and goes above what the fleet knows.
func (e *Election) announce(ctx context.Context, t *Term) error {
	for range maxAnnouncements {
		callCtx, cancel := context.WithTimeout(ctx, announceLimit)
		floors := e.leader.Announce(callCtx, t.Epoch())
		cancel()
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		raised, err := e.followFloors(ctx, t, floors)
		if err != nil || !raised {
			return err
		}
	}
	// Agents still report higher floors. Applies to them will be refused and ask
	// for a Reclaim of their own; the others can be led.
	klog.FromContext(ctx).Info("Led on below some agents' floors", "epoch", t.Epoch())
	return nil
}

// followFloors raises the epoch above the highest floor that an honest history
// reaches.
func (e *Election) followFloors(ctx context.Context, t *Term, floors []uint64) (raised bool, err error) {
	floors = slices.Clone(floors)
	slices.Sort(floors)
	slices.Reverse(floors)
	for _, floor := range floors {
		if floor <= t.Epoch() {
			return false, nil
		}
		err := t.Reclaim(ctx, floor)
		if errors.Is(err, fencing.ErrEpochJump) {
			klog.FromContext(ctx).Info("Did not follow an agent's floor", "floor", floor, "epoch", t.Epoch())
			continue
		}
		return err == nil, err
	}
	return false, nil
}

// runAlone leads without an election: R's claim is the term.
func (e *Election) runAlone(ctx context.Context) error {
	termCtx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(errOver)
	t := newTerm(e, nil, fencing.ElectionLease{}, end)
	_, err := e.serve(ctx, termCtx, t)
	e.metrics.Epoch.Set(0)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("standalone controller: %w", err)
}

// release frees the Lease, after everything that acted by it has stopped. It
// touches no Lease that moved on.
func (e *Election) release(ctx context.Context, l *lock, t *Term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.settings.callLimit())
	defer cancel()
	judge := fencing.Release
	if t.facts().Epoch == 0 {
		judge = fencing.Leads // refused before it claimed an epoch
	}
	err := retryConflicts(ctx, func(ctx context.Context) error {
		return l.change(ctx, func(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			if err := judge(record.ElectionLease(lease), t.facts()); err != nil {
				return nil, err
			}
			return record.WithoutHolder(lease), nil
		}, nil)
	})
	switch {
	case errors.Is(err, fencing.ErrFenced):
		klog.FromContext(ctx).Info("Left the lease to its new holder", "cause", err)
	case err != nil:
		klog.FromContext(ctx).Info("Left the lease to expire", "cause", err)
	default:
		klog.FromContext(ctx).Info("Released the lease", "epoch", t.Epoch())
	}
}
