package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/httpsource"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

// documents are what the template declares as httpResources. The sources of
// package httpsource are one.
type documents interface {
	Begin()
	Offer() (*httpsource.Offer, error)
	Accept(o *httpsource.Offer, names []string)
	Refuse(o *httpsource.Offer, name string, cause error)
	Problems() []string
}

// trial is one choice of everything that a render is made from.
type trial struct {
	template *v1alpha1.HAProxyTemplateConfig
	started  time.Time
	snapshot render.Snapshot
	offer    *httpsource.Offer
	// fresh names the documents whose newest content is used although no passed
	// output had it. While there are any, nothing may be dispatched unchecked.
	fresh []string
}

// failure is the outcome of a choice without an output.
func (t trial) failure(err error) outcome {
	o := outcome{
		template: t.template, failed: true, reason: string(render.ReasonRenderFailed), message: err.Error(), took: time.Since(t.started),
	}
	var e *render.Error
	if errors.As(err, &e) {
		o.reason = string(e.Reason)
	}
	return o
}

// offer asks for the documents, in the words of a render failure.
func (p *pipeline) offer(template *v1alpha1.HAProxyTemplateConfig) (*httpsource.Offer, error) {
	if err := httpsource.Validate(template.Spec.HTTPResources); err != nil {
		return nil, &render.Error{Reason: render.ReasonTemplateInvalid, Err: err}
	}
	offer, err := p.documents.Offer()
	if err == nil {
		return offer, nil
	}
	failure := &render.Error{Reason: render.ReasonInputUnavailable, Err: err}
	var size *httpsource.TooLargeError
	if errors.As(err, &size) {
		failure.Reason = render.ReasonTooLarge
	}
	return nil, failure
}

// isPending reports inputs that are being read for the first time.
func isPending(err error) bool {
	return errors.Is(err, render.ErrNotSynced) || errors.Is(err, httpsource.ErrPending)
}

// isPassing reports failures that may end without the template changing.
func isPassing(err error) bool {
	var e *render.Error
	return !errors.As(err, &e) || e.Reason != render.ReasonTemplateInvalid
}

// choose renders with the newest documents. If that fails it renders with those
// that passed before, and when this succeeds, the new content was to blame: it
// is refused by name, and all others are used.
func (p *pipeline) choose(ctx context.Context, t trial) outcome {
	t.fresh = t.offer.Fresh()
	newest := p.try(ctx, t)
	if !newest.failed {
		p.documents.Accept(t.offer, t.fresh)
		return newest
	}
	spare := t.offer.Spare()
	if newest.passing || len(spare) == 0 || ctx.Err() != nil {
		return newest
	}
	t.fresh = t.offer.Required()
	best := p.try(ctx, t)
	if best.failed {
		return best
	}
	p.documents.Accept(t.offer, t.fresh)
	if len(spare) == 1 {
		p.documents.Refuse(t.offer, spare[0], errors.New(newest.message))
		return best
	}
	return p.addOneByOne(ctx, t, best, spare)
}

// addOneByOne finds which of several new contents can be used.
func (p *pipeline) addOneByOne(ctx context.Context, t trial, best outcome, spare []string) outcome {
	used := t.fresh
	for _, name := range spare {
		t.fresh = append(slices.Clone(used), name)
		with := p.try(ctx, t)
		switch {
		case ctx.Err() != nil:
			return best
		case !with.failed:
			p.documents.Accept(t.offer, []string{name})
			used, best = t.fresh, with
		case !with.passing:
			p.documents.Refuse(t.offer, name, errors.New(with.message))
		}
	}
	return best
}
