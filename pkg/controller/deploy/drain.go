package deploy

import (
	"context"
	"fmt"
	"time"
)

// Drain dispatches nothing newer than the last dispatched output, and waits for
// that one: for the deployment under way, and for the reloads that pods put off.
// It returns early with an error when ctx ends, which must not outlive the term.
func (d *Deployer) Drain(ctx context.Context) error {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	select {
	case d.round <- struct{}{}:
		defer func() { <-d.round }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the deployment under way: %w", ctx.Err())
	}
	for {
		due, waiting := d.nextFollowUp()
		if !waiting {
			return nil
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for scheduled reloads: %w", ctx.Err())
		}
		d.serve(ctx, d.current, (*podState).dueFollowUp)
	}
}

// nextFollowUp is when the first pod is to be asked that put its reload off.
func (d *Deployer) nextFollowUp() (due time.Time, waiting bool) {
	for _, p := range d.pods {
		if p.scheduled && (!waiting || p.retryAt.Before(due)) {
			due, waiting = p.retryAt, true
		}
	}
	return due, waiting
}
