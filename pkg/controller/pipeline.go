package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/controller/httpsource"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

const (
	// debounce is how long inputs must be quiet before a render, and
	// maxDebounce how long they may keep one waiting.
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
	// accepted hands over a new output that may be dispatched.
	accepted(ctx context.Context, c *deploy.Candidate)
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
	// served says that the term has an output of its own, accepted now or before.
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

	began    time.Time
	sequence uint64
	accepted *deploy.Candidate
	// renderer is the compiled form of compiledFrom.
	renderer     *render.Renderer
	compiledFrom *v1alpha1.HAProxyTemplateConfig
}

// run renders once and then after every change, until ctx ends.
func (p *pipeline) run(ctx context.Context) {
	p.began = time.Now()
	p.documents.Begin()
	failures := 0
	for {
		o, ok := p.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		switch {
		case !ok || o.passing:
			again = time.After(retryPause(failures))
			failures++
		default:
			failures = 0
		}
		if ok {
			o.served = p.accepted != nil
			p.outlet.told(ctx, o)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-p.changed:
			if !p.settle(ctx) {
				return
			}
		}
	}
}

func retryPause(failures int) time.Duration {
	return min(retryRender<<min(failures, 10), maxRetryRender)
}

// settle waits until the inputs are quiet, or have kept the render waiting for
// long enough.
func (p *pipeline) settle(ctx context.Context) bool {
	longest := time.NewTimer(maxDebounce)
	defer longest.Stop()
	quiet := time.NewTimer(debounce)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.changed:
			quiet.Reset(debounce)
		case <-quiet.C:
			return true
		case <-longest.C:
			return true
		}
	}
}

// attempt takes the newest inputs as far as they go. It is not ok when there is
// nothing to tell yet.
func (p *pipeline) attempt(ctx context.Context) (o outcome, ok bool) {
	started := time.Now()
	template := p.template()
	if template == nil {
		return outcome{}, false
	}
	o = outcome{template: template}
	defer func() { o.took = time.Since(started) }()
	snapshot, err := p.inputs.Snapshot(ctx)
	var offer *httpsource.Offer
	if err == nil {
		offer, err = p.offer(template)
	}
	if err != nil {
		if isPending(err) && time.Since(p.began) < syncGrace {
			klog.FromContext(ctx).V(2).Info("Waited for the inputs", "err", err)
			return o, false
		}
		o.fail(err)
		o.passing = isPassing(err)
		o.problems = p.documents.Problems()
		return o, true
	}
	o = p.choose(ctx, trial{template: template, snapshot: snapshot, offer: offer})
	o.problems = p.documents.Problems()
	return o, true
}

// try takes one choice of inputs as far as it goes.
func (p *pipeline) try(ctx context.Context, t trial) outcome {
	o := outcome{template: t.template}
	output, err := p.render(ctx, t)
	if err != nil {
		o.fail(err)
		return o
	}
	if last := p.accepted; last != nil && last.Output.Plan.ID == output.Plan.ID && last.Checksum == output.Checksum() {
		o.reason, o.unchanged = reasonAccepted, true
		return o
	}
	p.judge(ctx, &o, output, t.snapshot)
	return o
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

// judge lets an output through that agents, store and HAProxy would take.
func (p *pipeline) judge(ctx context.Context, o *outcome, output *checkpoint.Output, snapshot render.Snapshot) {
	candidate, err := deploy.Prepare(output, p.sequence+1, snapshot.Redact)
	if err == nil {
		err = p.checkSize(output)
	}
	if err != nil {
		o.fail(&render.Error{Reason: render.ReasonTooLarge, Err: err})
		return
	}
	verdict, err := p.gate.Check(ctx, output)
	if err != nil {
		// Nobody else asks the gate in this term, so only ctx can have ended.
		o.failed, o.passing, o.reason, o.message = true, true, reasonGateUnknown, err.Error()
		return
	}
	message := snapshot.Redact(verdict.Message)
	switch verdict.Outcome {
	case gate.Valid:
		o.reason = reasonAccepted
		p.sequence++
		p.accepted = candidate
		p.outlet.accepted(ctx, candidate)
	case gate.Refused:
		o.failed, o.reason = true, reasonGateRefused
		o.message = fmt.Sprintf("HAProxy %s refuses the configuration: %s", verdict.Version, message)
		if place, ok := p.renderer.Locate(ctx, snapshot, verdict.Line); ok {
			o.message += fmt.Sprintf(" (from %s)", place)
		}
	default:
		o.failed, o.passing, o.reason = true, true, reasonGateUnknown
		o.message = "HAProxy gave no verdict: " + message
	}
}

func (o *outcome) fail(err error) {
	o.failed, o.reason, o.message = true, string(render.ReasonRenderFailed), err.Error()
	var e *render.Error
	if errors.As(err, &e) {
		o.reason = string(e.Reason)
	}
}
