package publish

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Publisher publishes for one term. Its queues are bounded: the newest accepted
// output, one receipt for each of a few outputs, and one entry per living pod.
// None of its methods but Run and Flush blocks.
type Publisher struct {
	settings Settings
	clients  Clients
	kinds    []childKind
	fence    Fence
	metrics  *Metrics

	wake    chan struct{}
	flushes chan flush
	stopped chan struct{}

	mu sync.Mutex
	// accepted is the newest by render order.
	accepted *acceptedOutput
	receipts receipts
	entries  map[string]v1alpha1.PodDeploymentStatus
	// living is nil until the fleet is known; fleet counts its changes.
	living  map[string]string
	fleet   int
	blocked bool
	// interrupt cancels the publication under way, nil without one.
	interrupt context.CancelCauseFunc

	// The rest belongs to the goroutine of Run.
	statuses                   *statuses
	output, checkpoint, status slot
	// outputDone was published last, and outputRefused is what the API server
	// refused for good.
	outputDone    *acceptedOutput
	outputRefused outputKey
	prepared      *encoded
	// sweptFleet is the fleet whose gone pods' entries were removed.
	sweptFleet int
	// collectDue says that unreferenced objects may be there.
	collectDue bool
}

type acceptedOutput struct {
	output   *checkpoint.Output
	key      outputKey
	sequence uint64
}

// flush asks for the receipts to be published past the throttle.
type flush struct {
	ctx  context.Context
	done chan error
}

// New makes the publisher of a term.
func New(settings Settings, clients Clients, fence Fence, metrics *Metrics) *Publisher {
	return &Publisher{
		settings: settings, clients: clients, kinds: childKinds(clients), fence: fence, metrics: metrics,
		wake: make(chan struct{}, 1), flushes: make(chan flush), stopped: make(chan struct{}),
		entries: map[string]v1alpha1.PodDeploymentStatus{}, statuses: newStatuses(),
		// What an earlier term left unreferenced is found once.
		collectDue: true,
	}
}

// Accepted queues an output that passed the gate. Only the newest by render
// order is published.
func (p *Publisher) Accepted(o *checkpoint.Output, sequence uint64) {
	p.change(func() {
		key := p.receipts.keyOf(o)
		p.receipts.accepted(key, sequence)
		if p.accepted == nil || sequence > p.accepted.sequence {
			p.accepted = &acceptedOutput{output: o, key: key, sequence: sequence}
		}
	})
}

// Deployed queues a receipt. One that does not prove the output is ignored. One
// for an older output than the newest acknowledged never becomes the newest; it
// is stored only when the intent names it.
func (p *Publisher) Deployed(o *checkpoint.Output, sequence uint64, entry checkpoint.PodEntry) {
	p.change(func() {
		key := p.receipts.keyOf(o)
		if !entry.Confirms(key.checksum, key.planID) {
			return
		}
		dropped := p.receipts.put(receipt{output: o, key: key, sequence: sequence, entry: entry})
		p.metrics.DroppedReceipts.Add(float64(dropped))
	})
}

// PodStatus queues a pod's account of an output, failed attempts included.
func (p *Publisher) PodStatus(entry v1alpha1.PodDeploymentStatus, _ *checkpoint.Output) {
	entry = bounded(entry)
	p.change(func() { p.entries[entry.PodName] = entry })
}

// Pods takes the whole fleet, pod names to UIDs. Entries of other pods are
// removed.
func (p *Publisher) Pods(living map[string]string) {
	living = maps.Clone(living)
	if living == nil {
		living = map[string]string{}
	}
	p.change(func() {
		if p.living != nil && maps.Equal(p.living, living) {
			return
		}
		p.living = living
		p.fleet++
		for name, entry := range p.entries {
			if isGone(entry, living) {
				delete(p.entries, name)
			}
		}
	})
}

// Block cancels the publication under way and starts no other until Unblock.
// Receipts wait. Requests that the API server already took cannot be undone.
func (p *Publisher) Block() {
	p.change(func() {
		p.blocked = true
		if p.interrupt != nil {
			p.interrupt(ErrBlocked)
		}
	})
}

// Unblock lets publication go on with what is newest, also when the output is
// the one that was there before.
func (p *Publisher) Unblock() {
	p.change(func() { p.blocked = false })
}

// Flush publishes the newest receipt and the one that the intent names at once,
// past the throttle, and returns when they are stored. While rendering is
// blocked it publishes nothing.
func (p *Publisher) Flush(ctx context.Context) error {
	request := flush{ctx: ctx, done: make(chan error, 1)}
	select {
	case p.flushes <- request:
	case <-p.stopped:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-request.done:
		return err
	case <-p.stopped:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Publisher) change(do func()) {
	p.mu.Lock()
	do()
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends. It must be called once.
func (p *Publisher) Run(ctx context.Context) {
	defer close(p.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case request := <-p.flushes:
			request.done <- p.flush(ctx, request.ctx)
		case <-p.wake:
		case <-timer.C:
		}
		if pause := p.step(ctx); ctx.Err() == nil {
			timer.Reset(pause)
		}
	}
}
