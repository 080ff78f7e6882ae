package probes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Worker runs one probe for one start of a container.
type Worker struct {
	Spec *corev1.Probe
	// Initial is the verdict before the first result.
	Initial bool
	// First is how long after the initial delay the first question is asked.
	// The kubelet's answer is chance, somewhere within the period.
	First time.Duration
	// Ask asks once.
	Ask func(ctx context.Context) error
	// Failed hears every failed question, for events.
	Failed func(err error)
	// Decided hears each time a run of results reached its threshold.
	Decided func(ok bool)
}

// Run asks until the context ends or, if once is set, until a first success:
// that is how a startup probe works.
func (w Worker) Run(ctx context.Context, once bool) {
	if !sleep(ctx, time.Duration(w.Spec.InitialDelaySeconds)*time.Second+w.First) {
		return
	}
	tally := NewTally(w.Spec, w.Initial)
	ticks := time.NewTicker(Period(w.Spec))
	defer ticks.Stop()
	for {
		err := w.Ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.Failed(err)
		}
		ok, decided := tally.Add(err == nil)
		if decided {
			w.Decided(ok)
			if ok && once {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// Period is the time between two questions.
func Period(spec *corev1.Probe) time.Duration {
	return time.Duration(max(1, spec.PeriodSeconds)) * time.Second
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
