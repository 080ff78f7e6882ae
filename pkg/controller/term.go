package controller

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
	"github.com/holdfast-project/holdfast/pkg/controller/publish"
	"github.com/holdfast-project/holdfast/pkg/controller/recovery"
)

// verdictPatience is how much of a drain waits for HAProxy's verdict.
const verdictPatience = 8 * time.Second

// leader does the work of one template's terms, one after another. It keeps
// nothing from one to the next.
type leader struct {
	*Controller
	// template is the object whose UID the terms are for; its settings are those
	// that the session began with.
	template *v1alpha1.HAProxyTemplateConfig
}

// work is everything that one term made.
type work struct {
	*Controller
	deployer  *deploy.Deployer
	publisher *publish.Publisher
	recovery  *recovery.Recovery
	reporter  *reporter
	rejects   rejections
	accounts  accounts
	receipts  withheld
	// stopRendering ends the pipeline ahead of the term, and rendered is closed
	// when it has ended.
	stopRendering context.CancelFunc
	rendered      chan struct{}
}

// Announce tells the epoch to every discovered agent and returns the floors
// above it.
func (l *leader) Announce(ctx context.Context, epoch uint64) (floors []uint64) {
	logger := klog.FromContext(ctx)
	told := deploy.Announcement{TemplateUID: string(l.template.UID), Epoch: epoch, Pods: l.fleet.Pods()}
	for _, answer := range deploy.Announce(ctx, l.agents, told) {
		if answer.Err != nil {
			logger.Info("Pod was not told the epoch", "pod", answer.Pod.Name, "epoch", epoch, "err", answer.Err)
		}
		if answer.Floor > epoch {
			floors = append(floors, answer.Floor)
		}
	}
	return floors
}

// Lead works until the term ends, and returns when everything it made has ended.
func (l *leader) Lead(ctx context.Context, term *election.Term) {
	w, p, renders := l.begin(ctx, term)
	l.work.Store(w)
	l.health.set(componentElection, "")
	var wg sync.WaitGroup
	wg.Go(func() { w.publisher.Run(ctx) })
	wg.Go(func() { w.deployer.Run(ctx) })
	wg.Go(func() { w.recovery.Run(ctx) })
	wg.Go(func() { w.reporter.Run(ctx) })
	wg.Go(func() {
		defer close(w.rendered)
		p.run(ctx, renders)
	})
	wg.Wait()
	w.stopRendering()
	l.work.Store(nil)
	// This process knows nothing of the newest inputs any more.
	l.metrics.Blocked.Set(0)
	l.metrics.Pods.Set(0)
	l.health.set(componentRender, "")
	l.health.set(componentDeploy, "")
}

// begin makes the pieces of a term.
func (l *leader) begin(ctx context.Context, term *election.Term) (*work, *pipeline, context.Context) {
	settings := publish.SettingsFor(l.template)
	w := &work{Controller: l.Controller, rendered: make(chan struct{})}
	w.publisher = publish.New(settings, l.publishClients, term, l.publishMetrics)
	w.reporter = newReporter(l.templates, l.events, term.Check)
	w.rejects = rejections{events: l.events, template: l.template}
	dataplane := l.template.Spec.Dataplane
	deployment := deploy.Settings{
		TemplateUID:   string(l.template.UID),
		MinInterval:   duration(dataplane.MinDeploymentInterval),
		DriftInterval: duration(dataplane.DriftPreventionInterval),
		Timeout:       duration(dataplane.DeploymentTimeout),
	}
	w.deployer = deploy.New(deployment, deploy.Parts{Agents: l.agents, Term: term, Fleet: l.fleet, Sink: w})
	w.recovery = l.newRecovery(term, deployment)
	renders, stop := context.WithCancel(ctx)
	w.stopRendering = stop
	p := &pipeline{
		sources: sources{
			template:  l.current,
			inputs:    l.inputs,
			documents: l.documents,
			gate:      l.gate,
			checkSize: func(o *checkpoint.Output) error { return publish.CheckSize(o, settings) },
			changed:   l.changed,
		},
		outlet: w,
	}
	return w, p, renders
}

// Drain brings the term to rest: nothing new, neither from a render nor from a
// checkpoint, the last dispatched output to its end, and its newest receipt into
// the store.
func (l *leader) Drain(ctx context.Context, _ *election.Term) {
	w := l.work.Load()
	if w == nil {
		return
	}
	logger := klog.FromContext(ctx)
	// From here on no pod is started from a checkpoint. A term that may still do
	// so has dispatched nothing, so waiting costs nothing that is to be published.
	if err := w.recovery.Cancel(ctx); err != nil {
		logger.Info("Gave up waiting for the start of pods from a checkpoint", "err", err)
	}
	w.stopRendering()
	if err := w.deployer.Drain(ctx); err != nil {
		logger.Info("Gave up waiting for a deployment, so its receipt may be missing", "err", err)
		return
	}
	// What was dispatched ahead of its verdict is published only with it. It takes
	// no more of the time than leaves enough for publishing what has one.
	select {
	case <-w.rendered:
	case <-time.After(verdictPatience):
		logger.Info("Gave up waiting for the verdict on the last output, so its receipt is missing")
	case <-ctx.Done():
	}
	if err := w.deployer.Drain(ctx); err != nil {
		logger.Info("Gave up taking a refused output back", "err", err)
		return
	}
	if err := w.publisher.Flush(ctx); err != nil {
		logger.Info("Did not publish the newest receipt", "err", err)
		return
	}
	logger.Info("Drained the term")
}

// dispatch hands a new output to the fleet, once no pod is being started from a
// checkpoint any more: only then may the output become the intent.
func (w *work) dispatch(ctx context.Context, c *deploy.Candidate) {
	for w.recovery.Cancel(ctx) != nil {
		if ctx.Err() != nil {
			return
		}
	}
	klog.FromContext(ctx).Info("Dispatched an output", "plan", c.Output.Plan.ID, "checksum", c.Checksum,
		"sequence", c.Sequence, "files", len(c.Output.Artifacts)+1)
	w.receipts.begin(c.Sequence)
	w.deployer.Dispatch(c)
}

// passed has an output published, with what pods have acknowledged of it.
func (w *work) passed(ctx context.Context, c *deploy.Candidate) {
	klog.FromContext(ctx).Info("Accepted an output", "plan", c.Output.Plan.ID, "sequence", c.Sequence)
	w.publisher.Accepted(c.Output, c.Sequence)
	for _, r := range w.receipts.release(c.Sequence) {
		w.publisher.Deployed(r.Output, r.Sequence, r.Entry)
	}
}

// refused takes an output back from the fleet. Nothing of it is published.
func (w *work) refused(ctx context.Context, c, back *deploy.Candidate) {
	klog.FromContext(ctx).Info("Took a refused output back", "plan", c.Output.Plan.ID, "sequence", c.Sequence)
	if back != nil {
		w.receipts.begin(back.Sequence)
		w.passed(ctx, back)
	}
	w.deployer.Recall(c, back)
}

// told reports a render's end everywhere an operator may look.
func (w *work) told(ctx context.Context, o outcome) {
	w.metrics.rendered(o)
	if o.failed {
		w.publisher.Block()
		if !o.served {
			w.recovery.Blocked(o.reason, o.message)
		}
		w.health.set(componentRender, o.reason+": "+o.message)
		klog.FromContext(ctx).Info("Rendered no valid output, the proxies keep what they have", "reason", o.reason, "err", o.message)
	} else {
		w.publisher.Unblock()
		w.health.set(componentRender, "")
	}
	w.reporter.report(ctx, o)
}

// Deployed takes what became of one pod.
func (w *work) Deployed(r deploy.Report) {
	w.metrics.deployed(r)
	if entry := podStatus(r); w.accounts.news(r.Pod.UID, entry) {
		w.publisher.PodStatus(entry, r.Output)
	}
	if r.Receipt && w.receipts.mayPublish(r) {
		w.publisher.Deployed(r.Output, r.Sequence, r.Entry)
	}
	w.rejects.note(r)
}

// Living takes the fleet as it is now.
func (w *work) Living(pods []deploy.Pod) {
	names, uids := make(map[string]string, len(pods)), make(map[string]bool, len(pods))
	for _, pod := range pods {
		names[pod.Name], uids[pod.UID] = pod.UID, true
	}
	w.metrics.Pods.Set(float64(len(pods)))
	w.publisher.Pods(names)
	w.rejects.keep(uids)
	w.accounts.keep(uids)
}

// Converged takes that the whole fleet runs the newest dispatched output.
func (w *work) Converged(*deploy.Candidate) { w.recovery.Converged() }

// Recorded takes how an attempt to record an intent ended.
func (w *work) Recorded(c *deploy.Candidate, err error) {
	problem := ""
	if err == nil {
		w.receipts.forgetBefore(c.Sequence)
	} else {
		problem = "recording the intent for plan " + c.Output.Plan.ID + ": " + err.Error()
	}
	w.health.set(componentDeploy, problem)
}

// eventPodFailed is the reason of the event on a pod that was not served.
const eventPodFailed = "DeploymentFailed"

// rejections tells of pods that do not take an output, once for each cause.
type rejections struct {
	events   eventRecorder
	template *v1alpha1.HAProxyTemplateConfig

	mu   sync.Mutex
	told map[string]string // by pod UID
}

func (r *rejections) note(report deploy.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = map[string]string{}
	}
	if report.Receipt {
		delete(r.told, report.Pod.UID)
		return
	}
	if report.Scheduled {
		return
	}
	// One failed attempt is no news: pods start, move and end.
	if !report.Rejected && report.Failures < 3 || r.told[report.Pod.UID] == report.Entry.LastError {
		return
	}
	r.told[report.Pod.UID] = report.Entry.LastError
	r.events.Event(r.template, corev1.EventTypeWarning, eventPodFailed,
		cutText("Pod "+report.Pod.Name+" does not run plan "+report.Output.Plan.ID+": "+report.Entry.LastError, maxNoteBytes))
}

func (r *rejections) keep(living map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.told, func(uid, _ string) bool { return !living[uid] })
}
