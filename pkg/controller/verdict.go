package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

// verdictState is what HAProxy is known to say of an output.
type verdictState int

const (
	verdictPending verdictState = iota
	verdictValid
	verdictRefused
	verdictUnknown
)

// rendering is one output on its way.
type rendering struct {
	// attempt is the newest attempt that gave this output.
	attempt uint64
	started time.Time
	outcome outcome

	snapshot   render.Snapshot
	renderer   *render.Renderer
	candidate  *deploy.Candidate
	state      verdictState
	dispatched bool
}

func (r *rendering) isPending() bool { return r != nil && r.state == verdictPending }
func (r *rendering) isValid() bool   { return r != nil && r.state == verdictValid }

// is reports that a rendering is of this very output.
func (r *rendering) is(output *checkpoint.Output) bool {
	return r != nil && r.candidate.Output.Plan.ID == output.Plan.ID && r.candidate.Checksum == output.Checksum()
}

// answer is the gate's.
type answer struct {
	*rendering
	verdict gate.Verdict
	err     error
}

// ask has the gate judge an output. Of those that wait, the gate skips all but
// the newest, so that few ask at a time.
func (p *pipeline) ask(ctx context.Context, r *rendering) {
	p.asked.Go(func() {
		verdict, err := p.gate.Check(ctx, r.candidate.Output)
		select {
		case p.verdicts <- answer{rendering: r, verdict: verdict, err: err}:
		case <-ctx.Done():
		}
	})
}

func (p *pipeline) dispatch(ctx context.Context, r *rendering) {
	r.dispatched, p.dispatched = true, r
	p.outlet.dispatch(ctx, r.candidate)
}

// decide acts on a verdict that nobody waits for, and tells when to try again if
// there was none.
func (p *pipeline) decide(ctx context.Context, a answer) time.Duration {
	p.conclude(ctx, a)
	r := a.rendering
	switch {
	case a.err != nil:
		// Skipped for a newer one. That may be a checkpoint's, which a recovery
		// under way has checked; then this one's turn comes again.
		if r == p.newest {
			return retryRender
		}
		return 0
	case !r.isValid() || r.dispatched:
		p.tell(ctx, r.attempt, r.outcome)
	}
	if r == p.newest && r.outcome.passing {
		return p.retryPause()
	}
	return 0
}

// conclude notes a verdict and does what follows from it for the fleet.
func (p *pipeline) conclude(ctx context.Context, a answer) {
	r, o := a.rendering, &a.outcome
	o.took = time.Since(r.started)
	message := r.snapshot.Redact(a.verdict.Message)
	switch {
	case a.err != nil:
		r.state = verdictUnknown
		o.failed, o.passing, o.reason, o.message = true, true, reasonGateUnknown, a.err.Error()
	case a.verdict.Outcome == gate.Valid:
		r.state, o.reason = verdictValid, reasonAccepted
		p.accept(ctx, r)
	case a.verdict.Outcome == gate.Refused:
		r.state = verdictRefused
		p.refuse(ctx, r)
		o.failed, o.reason = true, reasonGateRefused
		o.message = fmt.Sprintf("HAProxy %s refuses the configuration: %s", a.verdict.Version, message)
		if place, ok := r.renderer.Locate(ctx, r.snapshot, a.verdict.Line); ok {
			o.message += fmt.Sprintf(" (from %s)", place)
		}
	default:
		r.state = verdictUnknown
		o.failed, o.passing, o.reason, o.message = true, true, reasonGateUnknown, "HAProxy gave no verdict: "+message
	}
}

// accept lets the next outputs go ahead of their verdicts, and this one be
// published. One that waited and is not of the newest inputs any more is left
// out: where those have no output at all, nothing could be published of it, and
// it would be an intent without a checkpoint.
func (p *pipeline) accept(ctx context.Context, r *rendering) {
	p.failures = 0
	if !r.dispatched {
		if r != p.newest || r.attempt < p.attempts || ctx.Err() != nil {
			return
		}
		p.dispatch(ctx, r)
	}
	p.trusted = true // not sooner: a refusal needs one to go back to
	if p.valid == nil || r.candidate.Sequence > p.valid.candidate.Sequence {
		p.valid = r
	}
	p.outlet.passed(ctx, r.candidate)
}

// refuse has the fleet go back if it was given the output, and the next outputs
// wait for their verdicts.
func (p *pipeline) refuse(ctx context.Context, r *rendering) {
	p.trusted, p.failures = false, 0
	if !r.dispatched {
		return
	}
	var back *deploy.Candidate
	if p.dispatched == r {
		back = p.goBack(r)
	}
	p.outlet.refused(ctx, r.candidate, back)
}

// goBack makes the last valid output the fleet's again. Outputs go ahead of
// their verdicts only after one has passed, so that there always is one.
func (p *pipeline) goBack(r *rendering) *deploy.Candidate {
	p.sequence++
	again := *p.valid
	again.candidate = p.valid.candidate.Instead(r.candidate, p.sequence)
	p.valid, p.dispatched = &again, &again
	return again.candidate
}
