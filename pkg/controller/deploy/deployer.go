package deploy

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// Defaults of Settings.
const (
	DefaultMinInterval   = 2 * time.Second
	DefaultDriftInterval = 60 * time.Second
	DefaultTimeout       = 30 * time.Second
)

const (
	// maxParallel bounds the pods that are served at once. It is high: pods
	// share the bytes, and each costs a connection.
	maxParallel = 128
	// firstRetry is the first pause after a failure; it doubles up to the drift
	// interval.
	firstRetry = time.Second
)

// Agents are the agents of the fleet. The agent client is one.
type Agents interface {
	State(ctx context.Context, target client.Target, opts client.StateOptions) (*api.State, error)
	Apply(ctx context.Context, target client.Target, request client.ApplyRequest) (*api.Result, error)
	Announce(ctx context.Context, target client.Target, epoch uint64) (api.Floor, error)
}

// Term is the right to act. The election's term is one.
type Term interface {
	Epoch() uint64
	// Record makes the output the intent. Without its success nothing is applied.
	Record(ctx context.Context, planID, checksum string) error
	// Reclaim lifts the epoch over one that a pod has seen, if the term holds.
	Reclaim(ctx context.Context, floor uint64) error
}

// Fleet is what is discovered.
type Fleet interface {
	// Pods are the pods to serve, in any order.
	Pods() []Pod
}

// Sink takes what a deployment finds out. Its methods must not block.
type Sink interface {
	Deployed(report Report)
	// Living are all pods of the fleet, after each change.
	Living(pods []Pod)
	// Converged tells, once for each candidate, that every pod of the fleet runs
	// it. A fleet without pods runs nothing.
	Converged(c *Candidate)
	// Recorded tells how the attempt to record an intent ended.
	Recorded(c *Candidate, err error)
}

// Settings tune a Deployer. Zero durations take their defaults.
type Settings struct {
	TemplateUID   string
	MinInterval   time.Duration
	DriftInterval time.Duration
	// Timeout bounds one deployment to one pod.
	Timeout time.Duration
}

// Deployer serves one term and is thrown away with it.
type Deployer struct {
	settings Settings
	agents   Agents
	term     Term
	fleet    Fleet
	sink     Sink
	composer *composer

	// wake holds at most one wish to look again.
	wake chan struct{}
	// round is held while something is under way.
	round chan struct{}

	// recall tells a drain of what was recalled meanwhile.
	recall chan struct{}

	mu       sync.Mutex
	newest   *Candidate
	draining bool
	// recalled are outputs that pods have yet to leave.
	recalled []*Candidate
	// serving is what is being brought to pods, and breakOff ends that.
	serving  *Candidate
	breakOff context.CancelCauseFunc

	// Only the goroutine that holds round uses these.
	current     *Candidate
	dispatched  time.Time
	recordFails int
	converged   bool
	nextDrift   time.Time
	pods        map[string]*podState
}

// Parts are what a Deployer works with.
type Parts struct {
	Agents Agents
	Term   Term
	Fleet  Fleet
	Sink   Sink
}

// New makes a Deployer that knows of no output and no receipt.
func New(settings Settings, parts Parts) *Deployer {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&settings.MinInterval, DefaultMinInterval},
		{&settings.DriftInterval, DefaultDriftInterval},
		{&settings.Timeout, DefaultTimeout},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	return &Deployer{
		settings: settings, agents: parts.Agents, term: parts.Term, fleet: parts.Fleet, sink: parts.Sink,
		composer: newComposer(parts.Agents),
		wake:     make(chan struct{}, 1), round: make(chan struct{}, 1), recall: make(chan struct{}, 1),
		pods: map[string]*podState{},
	}
}

// Dispatch makes the candidate the newest. What was waiting before is dropped.
func (d *Deployer) Dispatch(c *Candidate) {
	d.mu.Lock()
	d.newest = c
	d.mu.Unlock()
	d.Wake()
}

// Wake makes the Deployer look at the fleet again.
func (d *Deployer) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends and everything it started has returned.
func (d *Deployer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case d.round <- struct{}{}:
		}
		pause := d.step(ctx)
		<-d.round
		timer.Reset(pause)
	}
}

// step does all that is due and tells how long nothing will be.
func (d *Deployer) step(ctx context.Context) time.Duration {
	if _, draining := d.wish(); draining {
		return d.settings.DriftInterval
	}
	d.undo(ctx)
	// Read behind the undo: what is recalled from here on is known to the round.
	newest, _ := d.wish()
	d.discover()
	d.tellEpoch(ctx)
	pause := d.settings.DriftInterval
	if newest != d.current {
		if wait := time.Until(d.dispatched.Add(d.settings.MinInterval)); d.current != nil && wait > 0 {
			pause = wait
		} else if err := d.record(ctx, newest); err != nil {
			pause = backoff(d.recordFails, d.settings.DriftInterval)
		}
	}
	if d.current != nil && ctx.Err() == nil {
		d.serveDue(ctx, d.current)
		d.tellConvergence()
	}
	return min(pause, d.untilDue())
}

// record makes the candidate the intent. On success, and only then, it becomes
// what pods are given.
func (d *Deployer) record(ctx context.Context, c *Candidate) error {
	ctx, cancel := context.WithTimeout(ctx, d.settings.Timeout)
	defer cancel()
	err := d.term.Record(ctx, c.Output.Plan.ID, c.Checksum)
	d.sink.Recorded(c, err)
	if err != nil {
		d.recordFails++
		klog.FromContext(ctx).Info("Did not record an intent, so nothing is applied", "plan", c.Output.Plan.ID, "err", err)
		return err
	}
	klog.FromContext(ctx).Info("Recorded the intent", "plan", c.Output.Plan.ID, "checksum", c.Checksum, "sequence", c.Sequence)
	d.recordFails = 0
	d.composer.remember(c.proof, c.Output.Plan)
	d.current, d.dispatched, d.converged = c, time.Now(), false
	// Every pod is read now, so none needs to be for a while.
	d.nextDrift = d.dispatched.Add(d.settings.DriftInterval)
	for _, p := range d.pods {
		p.renew()
	}
	return nil
}

// serveDue brings the candidate to every pod that is due, all of them when it is
// time to look for drift.
func (d *Deployer) serveDue(ctx context.Context, c *Candidate) {
	now := time.Now()
	drift := !now.Before(d.nextDrift)
	if drift {
		d.nextDrift = now.Add(d.settings.DriftInterval)
	}
	d.serve(ctx, c, func(p *podState, now time.Time) bool { return p.due(now, drift) })
}

// serve brings the candidate to the pods that are due, and reports each as soon
// as it is through.
func (d *Deployer) serve(ctx context.Context, c *Candidate, due func(p *podState, now time.Time) bool) {
	now := time.Now()
	round, end := d.beginRound(ctx, c)
	defer end()
	limit := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var floor uint64
	for _, p := range d.pods {
		if !due(p, now) {
			continue
		}
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			entry, err := d.bring(round, p.pod, c, p.scheduled)
			if round.Err() != nil {
				// The term or the output is over; nobody may act on what was found out.
				return
			}
			var outranked *outrankedError
			if errors.As(err, &outranked) {
				mu.Lock()
				floor = max(floor, outranked.floor)
				mu.Unlock()
			}
			d.sink.Deployed(p.settle(c, entry, err, d.settings.DriftInterval))
			d.tell(ctx, p, c, err)
		})
	}
	wg.Wait()
	// The new epoch is told at the start of the next step, before any apply.
	d.reclaim(ctx, floor)
}

func (d *Deployer) tell(ctx context.Context, p *podState, c *Candidate, err error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", p.pod.Name, "plan", c.Output.Plan.ID)
	var rejected *RejectedError
	var later *pendingError
	var kept *KeptError
	switch {
	case errors.As(err, &kept):
		logger.V(2).Info("Pod keeps the output that it loaded", "kept", kept.PlanID)
	case errors.As(err, &later):
		logger.V(2).Info("Pod took the output and will load it", "at", later.at)
	case errors.As(err, &rejected):
		logger.Info("Pod rejected the output", "stage", rejected.Detail.Stage, "err", cut(c.redact(rejected.Detail.Message)))
	case err != nil:
		logger.Info("Pod was not served and will be tried again", "err", cut(c.redact(err.Error())), "pause", time.Until(p.retryAt))
	default:
		logger.V(2).Info("Pod runs the output", "mode", p.lastGood.Mode)
	}
}

func (c *Candidate) redact(text string) string {
	if c.Redact == nil {
		return text
	}
	return c.Redact(text)
}
