package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

const (
	// settle is how long inputs must be quiet before a render: one change may come
	// as several events. Soon after others it is debounce, so that a burst costs two
	// renders. Neither keeps changes waiting for more than maxDebounce.
	settle      = 10 * time.Millisecond
	debounce    = 100 * time.Millisecond
	maxDebounce = time.Second
	// retryRender is the pause after a failure that may pass without any input
	// changing; it doubles up to maxRetryRender.
	retryRender    = 2 * time.Second
	maxRetryRender = time.Minute
	// syncGrace is how long watched kinds may take before that is a failure.
	syncGrace = 10 * time.Second
)

// Reasons of the Validated condition beside those of package render.
const (
	reasonAccepted    = "Accepted"
	reasonGateRefused = "GateRefused"
	reasonGateUnknown = "GateUnknown"
)

// sources are what a render is made from.
type sources struct {
	template func() *v1alpha1.HAProxyTemplateConfig
	inputs   interface {
		Snapshot(ctx context.Context) (render.Snapshot, error)
	}
	documents documents
	gate      interface {
		Check(ctx context.Context, output *checkpoint.Output) (gate.Verdict, error)
	}
	// checkSize refuses what the store would refuse.
	checkSize func(output *checkpoint.Output) error
	// changed is raised when any of them might give another output.
	changed signal
}

// outlet takes what a render ends in. Its methods are called by one goroutine.
type outlet interface {
	// dispatch hands over a new output for the fleet, with or without a verdict.
	dispatch(ctx context.Context, c *deploy.Candidate)
	// passed tells that HAProxy accepted a dispatched output.
	passed(ctx context.Context, c *deploy.Candidate)
	// refused tells that HAProxy refused a dispatched output. back is what the
	// fleet is to have instead, nil if something newer was dispatched.
	refused(ctx context.Context, c, back *deploy.Candidate)
	// told is called after every attempt, with what is true of the newest inputs.
	told(ctx context.Context, o outcome)
}

// outcome is how one attempt ended.
type outcome struct {
	template *v1alpha1.HAProxyTemplateConfig
	reason   string
	message  string
	// failed says that the inputs have no valid output.
	failed bool
	// passing says that the failure may end without any input changing.
	passing bool
	// served says that the term has a validated output of its own.
	served bool
	// unchanged says that the output was accepted before.
	unchanged bool
	// problems tell of documents that are not used as they are now.
	problems []string
	took     time.Duration
}

// pipeline renders for one term: it begins with no output of its own.
type pipeline struct {
	sources
	outlet outlet

	began time.Time
	// sequence counts outputs, attempts counts attempts at one, and toldOf is the
	// newest attempt whose end was told.
	sequence, attempts, toldOf uint64
	// failures counts failed attempts that may pass by themselves.
	failures int
	// trusted says that outputs are dispatched ahead of their verdicts: from the
	// first one that passed until one is refused.
	trusted bool
	// newest was rendered last, dispatched given to the fleet last, and valid
	// accepted last.
	newest, dispatched, valid *rendering
	verdicts                  chan answer
	asked                     sync.WaitGroup

	// renderer is the compiled form of compiledFrom.
	renderer     *render.Renderer
	compiledFrom *v1alpha1.HAProxyTemplateConfig
}

// run renders once and then after every change until renders ends, and then only
// learns what becomes of what was dispatched. It ends at once with ctx.
func (p *pipeline) run(ctx, renders context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer p.asked.Wait()
	defer cancel()
	p.began = time.Now()
	p.documents.Begin()
	p.verdicts = make(chan answer)
	p.follow(ctx, renders)
	for p.dispatched.isPending() {
		select {
		case <-ctx.Done():
			return
		case a := <-p.verdicts:
			p.decide(ctx, a)
		}
	}
}

// follow attempts a render when one is due.
func (p *pipeline) follow(ctx, renders context.Context) {
	due := time.NewTimer(0)
	defer due.Stop()
	var moving, last time.Time // since when changes have waited for a render, and when anything happened last
	quiet := debounce
	for {
		var pause time.Duration
		select {
		case <-renders.Done():
			return
		case <-p.changed:
			now := time.Now()
			if moving.IsZero() {
				moving, quiet = now, settle
				if now.Sub(last) < debounce {
					quiet = debounce
				}
			}
			last = now
			due.Reset(min(quiet, moving.Add(maxDebounce).Sub(now)))
		case a := <-p.verdicts:
			pause = p.decide(renders, a)
		case <-due.C:
			moving = time.Time{}
			pause = p.attempt(ctx, renders)
			last = time.Now()
		}
		if pause > 0 && moving.IsZero() {
			due.Reset(pause)
		}
	}
}

// attempt takes the newest inputs as far as they go, and tells when to try again
// without any change, zero for never.
func (p *pipeline) attempt(ctx, renders context.Context) time.Duration {
	t := trial{template: p.template(), started: time.Now()}
	if t.template == nil {
		return p.retryPause()
	}
	p.attempts++
	var err error
	if t.snapshot, err = p.inputs.Snapshot(renders); err == nil {
		t.offer, err = p.offer(t.template)
	}
	if err != nil {
		if isPending(err) && time.Since(p.began) < syncGrace {
			klog.FromContext(ctx).V(2).Info("Waited for the inputs", "err", err)
			return p.retryPause()
		}
		o := t.failure(err)
		o.passing = isPassing(err)
		return p.end(renders, o)
	}
	if len(t.offer.Fresh()) > 0 {
		// What no render used before waits for a verdict in any case.
		return p.end(renders, p.choose(renders, t))
	}
	r, o := p.produce(renders, t)
	switch {
	case r == nil:
		return p.end(renders, o)
	case renders.Err() != nil || r.isPending() && r == p.newest:
		return 0 // its verdict is on its way
	}
	p.newest = r
	if p.trusted && !r.dispatched {
		p.dispatch(renders, r)
	}
	p.ask(ctx, r)
	return 0
}

// produce renders an output that agents and store would take. Without a rendering,
// the outcome says why: there is none, or the fleet has it already.
func (p *pipeline) produce(ctx context.Context, t trial) (*rendering, outcome) {
	output, err := p.render(ctx, t)
	if err != nil {
		return nil, t.failure(err)
	}
	r := &rendering{
		attempt: p.attempts, started: t.started, outcome: outcome{template: t.template}, snapshot: t.snapshot, renderer: p.renderer,
	}
	switch {
	case p.dispatched.isValid() && p.dispatched.is(output) && !p.dispatched.candidate.IsInstead():
		p.newest = p.dispatched
		r.outcome.reason, r.outcome.unchanged = reasonAccepted, true
		return nil, r.outcome
	case p.newest.isPending() && p.newest.is(output):
		p.newest.attempt = p.attempts
		return p.newest, outcome{}
	case p.newest.is(output) && p.newest.state == verdictUnknown:
		// It keeps its place in the order of renders, and may be with the fleet.
		r.candidate, r.dispatched = p.newest.candidate, p.newest.dispatched
		if p.dispatched == p.newest {
			p.dispatched = r
		}
		return r, outcome{}
	}
	r.candidate, err = deploy.Prepare(output, p.sequence+1, t.snapshot.Redact)
	if err == nil {
		err = p.checkSize(output)
	}
	if err != nil {
		return nil, t.failure(&render.Error{Reason: render.ReasonTooLarge, Err: err})
	}
	p.sequence++
	return r, outcome{}
}

// try takes one choice of inputs to its end, the verdict included.
func (p *pipeline) try(ctx context.Context, t trial) outcome {
	r, o := p.produce(ctx, t)
	if r == nil {
		return o
	}
	asked := r == p.newest
	p.newest = r
	if !asked {
		p.ask(ctx, r)
	}
	for {
		select {
		case <-ctx.Done():
			return t.failure(ctx.Err())
		case a := <-p.verdicts:
			if a.rendering == r {
				p.conclude(ctx, a)
				return r.outcome
			}
			p.decide(ctx, a)
		}
	}
}

func (p *pipeline) render(ctx context.Context, t trial) (*checkpoint.Output, error) {
	if p.compiledFrom != t.template {
		renderer, err := render.Compile(t.template)
		if err != nil {
			return nil, err
		}
		p.renderer, p.compiledFrom = renderer, t.template
	}
	p.renderer = p.renderer.With(t.offer.Contents(t.fresh))
	return p.renderer.Render(ctx, t.snapshot)
}

// end tells the end of the newest attempt, and when to make another without any
// change.
func (p *pipeline) end(ctx context.Context, o outcome) time.Duration {
	p.tell(ctx, p.attempts, o)
	if o.passing {
		return p.retryPause()
	}
	p.failures = 0
	return 0
}

// tell hands over how an attempt ended, unless more is known of later inputs. A
// failure may come of the stop itself; an output that was dispatched is told of in
// any case, because a drain has to publish it.
func (p *pipeline) tell(ctx context.Context, attempt uint64, o outcome) {
	if attempt < p.toldOf || o.failed && ctx.Err() != nil {
		return
	}
	p.toldOf = attempt
	o.served, o.problems = p.valid != nil, p.documents.Problems()
	p.outlet.told(ctx, o)
}

func (p *pipeline) retryPause() time.Duration {
	pause := min(retryRender<<min(p.failures, 10), maxRetryRender)
	p.failures++
	return pause
}
