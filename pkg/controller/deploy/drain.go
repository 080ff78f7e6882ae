package deploy

import (
	"context"
	"fmt"
	"time"
)

// Drain dispatches nothing newer than the last dispatched output, and waits for
// that one: for the deployment under way, and for the reloads that pods put off.
// What is recalled meanwhile is still taken back, and what comes instead still
// brought: it is older, not newer. Drain returns early with an error when ctx
// ends, which must not outlive the term, and may be called again.
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
		if err := d.goBack(ctx); err != nil {
			return err
		}
		due, waiting := d.nextFollowUp()
		if !waiting || d.current == nil {
			return nil
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
			d.serve(ctx, d.current, (*podState).dueFollowUp)
		case <-d.recall:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for scheduled reloads: %w", ctx.Err())
		}
	}
}

// wish is what is to be dispatched, unless nothing is any more.
func (d *Deployer) wish() (newest *Candidate, draining bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest, d.draining
}

// goBack undoes what was recalled and brings what comes instead, so that the
// intent that a drain leaves behind is one that has a checkpoint.
func (d *Deployer) goBack(ctx context.Context) error {
	d.undo(ctx)
	back := d.wayBack()
	if back == nil {
		return nil
	}
	if err := d.record(ctx, back); err != nil {
		return fmt.Errorf("recording the intent to go back to: %w", err)
	}
	d.serveDue(ctx, back)
	return nil
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
