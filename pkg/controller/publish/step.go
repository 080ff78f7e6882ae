package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

const (
	// firstRetry is the pause after a failure; it doubles up to maxRetry.
	firstRetry = time.Second
	maxRetry   = time.Minute
	// flushRetry is the pause between attempts of a drain, which has seconds.
	flushRetry = 500 * time.Millisecond
)

// slot paces one kind of publication.
type slot struct {
	// next is the earliest time of the next attempt.
	next     time.Time
	failures int
}

// settle takes how an attempt ended: interval paces successes, and failures
// wait longer each time.
func (s *slot) settle(now time.Time, err error, interval time.Duration) {
	if errors.Is(err, ErrBlocked) {
		return
	}
	if err == nil {
		s.failures = 0
		s.next = now.Add(interval)
		return
	}
	pause := min(firstRetry<<min(s.failures, 10), maxRetry)
	s.failures++
	s.next = now.Add(max(pause, interval))
}

// step does what is due and tells how long nothing will be.
func (p *Publisher) step(ctx context.Context) time.Duration {
	now := time.Now()
	p.knowIntent(ctx)
	p.mu.Lock()
	accepted, blocked := p.accepted, p.blocked
	receipts, fresh := p.receipts.last() != nil, p.receipts.fresh()
	p.mu.Unlock()
	pause := verifyInterval
	if !blocked {
		if accepted != nil && accepted.key != p.outputRefused {
			pause = min(pause, p.pace(now, &p.output, accepted != p.outputDone, func() error {
				return p.runOutput(ctx, accepted)
			}))
		}
		if receipts {
			pause = min(pause, p.pace(now, &p.checkpoint, fresh, func() error {
				return p.runCheckpoints(ctx)
			}))
		}
	}
	return min(pause, p.runStatuses(ctx))
}

// pace runs do when it is due: something new after its throttle, something old
// after verifyInterval. It gives the time until it is due again.
func (p *Publisher) pace(now time.Time, s *slot, fresh bool, do func() error) time.Duration {
	due := s.next
	if !fresh {
		due = due.Add(verifyInterval - min(p.settings.Interval, verifyInterval))
	}
	if now.Before(due) {
		return due.Sub(now)
	}
	err := do()
	if errors.Is(err, ErrRefused) {
		err = nil // it is not tried again, so there is nothing to wait for
	}
	s.settle(time.Now(), err, p.settings.Interval)
	if err == nil {
		return verifyInterval
	}
	return time.Until(s.next)
}

func (p *Publisher) runOutput(ctx context.Context, accepted *acceptedOutput) error {
	err := p.attempt(ctx, whatOutput, func(ctx context.Context) (bool, error) {
		e, err := p.prepare(accepted.output)
		if err != nil {
			return false, err
		}
		return p.publishOrdinary(ctx, e)
	})
	p.outputDone = nil
	switch {
	case err == nil:
		p.outputDone = accepted
	case errors.Is(err, ErrRefused):
		p.outputRefused = accepted.key
	}
	return err
}

// prepare encodes an output once for both kinds of publication.
func (p *Publisher) prepare(o *checkpoint.Output) (*encoded, error) {
	if p.prepared != nil && p.prepared.output == o {
		return p.prepared, nil
	}
	e, err := encode(o, p.settings.CompressionThreshold)
	if err != nil {
		return nil, errors.Join(ErrRefused, err)
	}
	size, err := e.largest(p.settings.Template)
	if err != nil {
		return nil, errors.Join(ErrRefused, err)
	}
	p.metrics.LargestObject.Set(float64(size))
	p.prepared = e
	return e, nil
}

// attempt runs one publication so that Block can cancel it, and tells how it
// ended.
func (p *Publisher) attempt(ctx context.Context, what string, do func(context.Context) (changed bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	blocked := p.blocked
	p.interrupt = cancel
	p.mu.Unlock()
	if blocked {
		return ErrBlocked
	}
	changed, err := do(ctx)
	p.mu.Lock()
	p.interrupt = nil
	p.mu.Unlock()
	if err != nil && errors.Is(context.Cause(ctx), ErrBlocked) {
		err = ErrBlocked
	}
	p.tell(ctx, what, changed, err)
	return err
}

func (p *Publisher) tell(ctx context.Context, what string, changed bool, err error) {
	logger, outcome := klog.FromContext(ctx), outcomeUnchanged
	switch {
	case err == nil && changed:
		outcome = outcomeStored
		logger.V(2).Info("Published", "what", what)
	case err == nil:
	case errors.Is(err, ErrBlocked):
		outcome = outcomeBlocked
	case errors.Is(err, fencing.ErrFenced):
		outcome = outcomeFenced
		logger.Info("Gave publication up to a newer term", "what", what, "cause", err)
	case errors.Is(err, ErrRefused):
		outcome = outcomeRefused
		logger.Error(err, "Publication was refused for good", "what", what)
	case ctx.Err() != nil:
		return
	default:
		outcome = outcomeFailed
		logger.Error(err, "Publication did not succeed, will retry", "what", what)
	}
	p.metrics.Publishes.WithLabelValues(what, outcome).Inc()
}

// flush publishes receipts for a drain, as often as its time allows. The
// ordinary output follows: recovery does not need it.
func (p *Publisher) flush(ctx, limit context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(limit, cancel)()
	for {
		err := p.flushOnce(ctx)
		if err == nil || errors.Is(err, fencing.ErrFenced) || errors.Is(err, ErrRefused) || errors.Is(err, ErrBlocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(flushRetry):
		}
	}
}

func (p *Publisher) flushOnce(ctx context.Context) error {
	p.mu.Lock()
	accepted := p.accepted
	// With several receipts only the intent tells which of them are due.
	due := p.receipts.fresh() || len(p.receipts.queue) > 1
	lost := p.receipts.lost()
	p.mu.Unlock()
	if due {
		if err := p.runCheckpoints(ctx); err != nil {
			return err
		}
	}
	if accepted != nil && accepted != p.outputDone && accepted.key != p.outputRefused {
		if err := p.runOutput(ctx, accepted); err != nil {
			return err
		}
	}
	if lost {
		return fmt.Errorf("the newest receipt's checkpoint: %w", ErrRefused)
	}
	return nil
}
