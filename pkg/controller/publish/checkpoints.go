package publish

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// maxRaces is how often the publication of a checkpoint starts over at once
// because somebody else wrote in between.
const maxRaces = 4

// runCheckpoints stores the wanted receipts in render order, so that each
// finds its predecessor. A refused one gives way to the one before it.
func (p *Publisher) runCheckpoints(ctx context.Context) error {
	var refused error
	done := map[outputKey]uint64{}
	for {
		wanted, err := p.wantedReceipts(ctx)
		if err != nil {
			p.tell(ctx, whatCheckpoint, false, err)
			return err
		}
		again := false
		for _, r := range wanted {
			if sequence, ok := done[r.key]; ok && sequence == r.sequence {
				continue
			}
			err := p.runCheckpoint(ctx, r)
			if err == nil {
				done[r.key] = r.sequence
				continue
			}
			if !errors.Is(err, ErrRefused) {
				return err
			}
			refused, again = err, true
		}
		if !again {
			return refused
		}
	}
}

// wantedReceipts asks for the intent only when there is a choice.
func (p *Publisher) wantedReceipts(ctx context.Context) ([]receipt, error) {
	p.mu.Lock()
	choice := len(p.receipts.queue) > 1
	p.mu.Unlock()
	if choice {
		if _, err := p.readIntent(ctx); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.receipts.wanted(), nil
}

// knowIntent reads the intent when the queue has grown, so that it drops the
// right receipts while nothing is published. Failing that, it is read before
// whatever is published next.
func (p *Publisher) knowIntent(ctx context.Context) {
	p.mu.Lock()
	unsure := p.receipts.unsure && len(p.receipts.queue) > maxReceipts/2
	p.mu.Unlock()
	if !unsure {
		return
	}
	if _, err := p.readIntent(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("Did not read the intent while receipts wait", "err", err)
	}
}

// readIntent reads the recorded intent, with a check of the term.
func (p *Publisher) readIntent(ctx context.Context) (fencing.Intent, error) {
	intent, err := p.fence.Intent(ctx)
	if err != nil {
		return intent, fmt.Errorf("read the intent: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.receipts.intended, p.receipts.unsure = outputKey{planID: intent.PlanID, checksum: intent.Checksum}, false
	return intent, nil
}

func (p *Publisher) runCheckpoint(ctx context.Context, r receipt) error {
	err := p.attempt(ctx, whatCheckpoint, func(ctx context.Context) (bool, error) {
		e, err := p.prepare(r.output)
		if err != nil {
			return false, err
		}
		changed := false
		for range maxRaces {
			var wrote bool
			wrote, err = p.publishCheckpoint(ctx, r, e)
			changed = changed || wrote
			switch {
			case errors.Is(err, errNoOrdinary):
				// The pointers live there. It is published from the acknowledged
				// output when it was deleted behind our back.
				if _, err := p.publishOrdinary(ctx, e); err != nil {
					return changed, err
				}
			case !errors.Is(err, errChanged) && !apierrors.IsConflict(err):
				return changed, err
			}
		}
		return changed, err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, ErrRefused):
		p.receipts.refuse(r.key)
	case err != nil:
		p.receipts.failed(r.key)
	}
	return err
}
