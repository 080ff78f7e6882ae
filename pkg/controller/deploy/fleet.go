package deploy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// announceTimeout bounds one announcement, so that a pod that does not answer
// holds up no output for long.
const announceTimeout = 3 * time.Second

// followUpDelay is the time that a scheduled reload takes once it is due.
const followUpDelay = 500 * time.Millisecond

// podState is what a term knows of one pod.
type podState struct {
	pod Pod
	// told is the epoch the pod has heard; until then it is told again at tellAt.
	told      uint64
	tellFails int
	tellAt    time.Time
	// settled says that the pod was proven to run the current output, and
	// scheduled that it holds the output and will load it.
	settled   bool
	scheduled bool
	failures  int
	retryAt   time.Time
	lastGood  *checkpoint.PodEntry
}

// renew makes the pod due at once.
func (p *podState) renew() {
	p.settled, p.scheduled, p.failures, p.retryAt = false, false, 0, time.Time{}
}

func (p *podState) due(now time.Time, drift bool) bool {
	return drift || !p.settled && !now.Before(p.retryAt)
}

// dueFollowUp reports that a reload which the pod put off should be over.
func (p *podState) dueFollowUp(now time.Time) bool { return p.scheduled && !now.Before(p.retryAt) }

// settle notes how a deployment ended and makes its report.
func (p *podState) settle(c *Candidate, entry checkpoint.PodEntry, err error, longest time.Duration) Report {
	report := Report{Pod: p.pod, Output: c.Output, Sequence: c.Sequence}
	p.scheduled = false
	var later *pendingError
	if errors.As(err, &later) {
		p.settled, p.scheduled, p.failures = false, true, 0
		p.retryAt = followUpAt(later.at, time.Now())
		report.Entry, report.Scheduled = later.entry, true
		return report
	}
	if err == nil {
		p.settled, p.failures, p.lastGood = true, 0, &entry
		report.Entry, report.Receipt = entry, true
		return report
	}
	p.settled = false
	p.failures++
	pause := backoff(p.failures, longest)
	var mode api.Outcome
	var rejected *RejectedError
	var kept *KeptError
	switch {
	case errors.As(err, &kept):
		pause = longest // only another output changes that
	case errors.As(err, &rejected):
		// The same bytes at once would be refused again, at the cost of a reload.
		mode, pause, report.Rejected = api.OutcomeRejected, longest, true
	}
	p.retryAt = time.Now().Add(pause)
	report.Entry = failedEntry(p.pod, p.lastGood, mode, c.redact(err.Error()))
	report.Failures = p.failures
	return report
}

// followUpAt is when to ask a pod again that put its reload off: a little after
// it is due, and not sooner than it can have become true.
func followUpAt(due, now time.Time) time.Time {
	if earliest := now.Add(followUpDelay); due.Before(earliest) {
		return earliest
	}
	return due.Add(followUpDelay)
}

func backoff(failures int, longest time.Duration) time.Duration {
	pause := firstRetry
	for range failures - 1 {
		if pause *= 2; pause >= longest {
			break
		}
	}
	return min(pause, longest)
}

// discover brings the known pods in line with the fleet.
func (d *Deployer) discover() {
	changed := false
	seen := make(map[string]bool)
	pods := d.fleet.Pods()
	for _, pod := range pods {
		seen[pod.UID] = true
		known, ok := d.pods[pod.UID]
		switch {
		case !ok:
			d.pods[pod.UID] = &podState{pod: pod}
			changed = true
		case known.pod != pod:
			known.pod = pod
			known.renew()
			known.told, known.tellFails, known.tellAt = 0, 0, time.Time{}
		}
	}
	for uid := range d.pods {
		if !seen[uid] {
			delete(d.pods, uid)
			changed = true
		}
	}
	if changed {
		slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
		d.sink.Living(pods)
	}
}

// tellEpoch tells the epoch to every pod that has not heard it, and goes above
// the floors that pods report. It is an effort, not a condition: an apply
// carries the epoch as well.
func (d *Deployer) tellEpoch(ctx context.Context) {
	for range maxAttempts {
		if floor := d.announce(ctx); floor <= d.term.Epoch() || !d.reclaim(ctx, floor) {
			return
		}
	}
}

// reclaim lifts the epoch, if the term still holds its Lease.
func (d *Deployer) reclaim(ctx context.Context, floor uint64) bool {
	if floor < d.term.Epoch() {
		return true
	}
	if err := d.term.Reclaim(ctx, floor); err != nil {
		klog.FromContext(ctx).Info("Did not go above an agent's floor", "floor", floor, "epoch", d.term.Epoch(), "err", err)
		return false
	}
	return true
}

// announce is one round of telling. It returns the highest floor reported.
func (d *Deployer) announce(ctx context.Context) (floor uint64) {
	epoch := d.term.Epoch()
	var news []*podState
	var pods []Pod
	for _, p := range d.pods {
		if p.told != epoch && !time.Now().Before(p.tellAt) {
			news, pods = append(news, p), append(pods, p.pod)
		}
	}
	told := Announcement{TemplateUID: d.settings.TemplateUID, Epoch: epoch, Pods: pods}
	for i, answer := range Announce(ctx, d.agents, told) {
		if answer.Err == nil {
			news[i].told, news[i].tellFails = epoch, 0
			continue
		}
		news[i].tellFails++
		news[i].tellAt = time.Now().Add(backoff(news[i].tellFails, d.settings.DriftInterval))
		floor = max(floor, answer.Floor)
		klog.FromContext(ctx).V(2).Info("Pod was not told the epoch", "pod", pods[i].Name, "epoch", epoch, "err", answer.Err)
	}
	return floor
}

// Answer is what one pod said to an announcement.
type Answer struct {
	Pod Pod
	// Floor is the epoch the pod keeps as its floor, where it told.
	Floor uint64
	Err   error
}

// Announcement is an epoch and who is to hear it.
type Announcement struct {
	TemplateUID string
	Epoch       uint64
	Pods        []Pod
}

// Announce tells the epoch to the pods, all at once, and returns what each
// answered, in the same order.
func Announce(ctx context.Context, agents Agents, a Announcement) []Answer {
	answers := make([]Answer, len(a.Pods))
	limit := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for i, pod := range a.Pods {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			ctx, cancel := context.WithTimeout(ctx, announceTimeout)
			defer cancel()
			target := client.Target{PodName: pod.Name, PodUID: pod.UID, TemplateUID: a.TemplateUID, Address: pod.Address}
			floor, err := agents.Announce(ctx, target, a.Epoch)
			answers[i] = Answer{Pod: pod, Floor: floor.Floor, Err: err}
			var conflict *client.ConflictError
			if errors.As(err, &conflict) {
				answers[i].Floor = conflict.Conflict.EpochFloor
			}
		})
	}
	wg.Wait()
	return answers
}

// tellConvergence reports the first time that all pods run the output.
func (d *Deployer) tellConvergence() {
	if d.converged || len(d.pods) == 0 {
		return
	}
	for _, p := range d.pods {
		if !p.settled {
			return
		}
	}
	d.converged = true
	d.sink.Converged(d.current)
}

// untilDue is the time until a pod or the drift check is due.
func (d *Deployer) untilDue() time.Duration {
	pause := d.settings.DriftInterval
	if d.current != nil {
		pause = time.Until(d.nextDrift)
	}
	for _, p := range d.pods {
		if !p.settled && d.current != nil {
			pause = min(pause, time.Until(p.retryAt))
		}
		if p.told != d.term.Epoch() {
			pause = min(pause, time.Until(p.tellAt))
		}
	}
	return max(pause, 10*time.Millisecond)
}
