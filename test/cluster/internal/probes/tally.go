package probes

import corev1 "k8s.io/api/core/v1"

// Tally counts probe results against the thresholds of a specification.
type Tally struct {
	success, failure int
	last             bool
	run              int
	verdict          bool
}

// NewTally starts from the verdict a container has before its first probe:
// true for liveness, false for readiness and startup.
func NewTally(probe *corev1.Probe, initial bool) *Tally {
	return &Tally{
		success: max(1, int(probe.SuccessThreshold)),
		failure: max(1, int(probe.FailureThreshold)),
		verdict: initial,
	}
}

// Add counts one result and answers the verdict and whether this result made
// it. A run of equal results is reported once, when it reaches its threshold.
func (t *Tally) Add(ok bool) (verdict, decided bool) {
	if t.run > 0 && t.last == ok {
		t.run++
	} else {
		t.last, t.run = ok, 1
	}
	threshold := t.failure
	if ok {
		threshold = t.success
	}
	if t.run < threshold {
		return t.verdict, false
	}
	t.verdict = ok
	return ok, t.run == threshold
}
