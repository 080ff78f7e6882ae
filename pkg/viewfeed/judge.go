package viewfeed

import (
	"slices"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// flush recomputes what a change made out of date: checkpoints first, since
// intents speak of them.
func (e *engine) flush(sp *space, d *dirty) {
	if !e.started {
		return
	}
	for name := range d.checkpoints {
		if r := sp.retained[name]; r != nil {
			d.templates[r.templateName] = struct{}{}
		}
		e.viewCheckpoint(sp, name)
	}
	for name := range d.templates {
		e.viewIntent(sp, name)
	}
}

// judgement is one verdict in the making: what it is about, and what it could
// not find out from what is known.
type judgement struct {
	engine *engine
	space  *space
	*retained
	// modified is when the checkpoint or one of its files was last written.
	modified time.Time
	// children are referenced, and neither known nor known to be missing.
	children []childKey
	// evidence is of bytes whose content checksum is not known.
	evidence string
}

// viewCheckpoint recomputes one checkpoint's verdict and view.
func (e *engine) viewCheckpoint(sp *space, name string) {
	r := sp.retained[name]
	if r == nil {
		e.views.Checkpoints.Delete(sp.namespace, name)
		e.count(sp.namespace, name, "")
		return
	}
	in := view.CheckpointInput{
		Meta: r.Meta, Labels: r.labels,
		TemplateName: r.templateName, TemplateUID: r.templateUID,
		Leases: view.Leases{Readable: e.stateOf(KindLease, sp.namespace) != forbidden},
	}
	judged := checkpoint.Template{Namespace: sp.namespace, Name: r.templateName, UID: r.templateUID}
	if t := sp.templates[r.templateName]; t != nil {
		judged.UID = t.UID
		in.Template = &t.Template
		in.Output = sp.outputOf(t)
		in.Leases, in.Intent = e.intentOf(sp, t)
	}
	j := &judgement{engine: e, space: sp, retained: r, modified: r.modified}
	in.Verdict = checkpoint.Judge(checkpoint.Input{
		Template:        judged,
		Checkpoint:      r.CheckpointFacts,
		Child:           j.child,
		Pointer:         in.Output.PointerTo(name),
		ContentChecksum: j.contentChecksum,
	})
	in.Modified = j.modified
	e.metrics.Judgements.Inc()
	e.count(sp.namespace, name, in.Verdict.State)
	j.ask(&in.Verdict)

	v := view.Checkpoint(&in)
	share(v, r.view)
	e.views.Checkpoints.Set(v)
	r.view = e.views.Checkpoints.Present(sp.namespace, name)
}

// share lets a view have the parts that did not change from the one before it,
// which stays in the history for a while, and texts from whoever has them.
func share(v, before *views.RetainedCheckpoint) {
	for i := range v.Status.Conditions {
		c := &v.Status.Conditions[i]
		c.Message = unique.Make(c.Message).Value()
	}
	if before == nil {
		return
	}
	if equality.Semantic.DeepEqual(before.Status.Artifacts, v.Status.Artifacts) {
		v.Status.Artifacts = before.Status.Artifacts
	}
	if equality.Semantic.DeepEqual(before.Status.Conditions, v.Status.Conditions) {
		v.Status.Conditions = before.Status.Conditions
	}
}

// child looks up a referenced object for a verdict.
func (j *judgement) child(kind, name string) (*checkpoint.ChildFacts, checkpoint.Presence) {
	key := childKey{kind, name}
	if c := j.space.children[key]; c != nil {
		if c.modified.After(j.modified) {
			j.modified = c.modified
		}
		return c.ChildFacts, checkpoint.Present
	}
	switch j.engine.stateOf(kind, j.space.namespace) {
	case forbidden:
		return nil, checkpoint.Unreadable
	case absent:
		return nil, checkpoint.Missing
	}
	if j.gone[key] {
		return nil, checkpoint.Missing
	}
	// The stream of its kind may be behind, or may not have it.
	j.children = append(j.children, key)
	return nil, checkpoint.Pending
}

func (j *judgement) contentChecksum(evidence string) (string, bool) {
	checksum, known := j.checksumOf(evidence)
	if !known {
		j.evidence = evidence
	}
	return checksum, known
}

// ask queues the live reads that would answer the open questions.
func (j *judgement) ask(verdict *checkpoint.Verdict) {
	for _, key := range j.children {
		j.engine.queue(task{namespace: j.space.namespace, kind: key.kind, name: key.name})
	}
	j.reading = nil
	// Reading all bytes is worth it only when nothing else speaks against them.
	if j.evidence != "" && len(j.children) == 0 && verdict.State == checkpoint.Unknown {
		j.reading = newReading(j.CheckpointFacts, verdict, j.evidence)
		j.engine.queue(task{namespace: j.space.namespace, kind: v1alpha1.KindCfg, name: j.Name})
	}
}

func (e *engine) queue(t task) {
	if !e.ready {
		e.firstRound[t] = true
	}
	e.ask(t)
}

// count keeps the numbers of verdicts by state.
func (e *engine) count(namespace, name string, to checkpoint.State) {
	key := task{namespace: namespace, kind: v1alpha1.KindCfg, name: name}
	if before, ok := e.judged[key]; ok {
		e.metrics.Checkpoints.WithLabelValues(string(before)).Dec()
	}
	if to == "" {
		delete(e.judged, key)
		return
	}
	e.judged[key] = to
	e.metrics.Checkpoints.WithLabelValues(string(to)).Inc()
}

// outputOf returns a template's ordinary output: by its name, and only if the
// template owns it.
func (sp *space) outputOf(t *templateFact) *view.Output {
	output := sp.outputs[checkpoint.OrdinaryName(t.Name)]
	root := checkpoint.Template{Namespace: t.Namespace, Name: t.Name, UID: t.UID}
	if output == nil || root.OwnerProblem(output.owner, sp.namespace) != "" {
		return nil
	}
	return &output.Output
}

// intentOf returns a template's Leases and the intent that follows from them.
func (e *engine) intentOf(sp *space, t *templateFact) (view.Leases, fencing.EffectiveIntent) {
	leases := sp.leasesOf(t)
	leases.Readable = e.stateOf(KindLease, sp.namespace) != forbidden
	return leases, fencing.Effective(leases.Election, leases.Retained, t.UID)
}

// viewIntent recomputes one template's intent.
func (e *engine) viewIntent(sp *space, name string) {
	t := sp.templates[name]
	if t == nil {
		e.views.Intents.Delete(sp.namespace, name)
		e.metrics.conditions(sp.namespace, name, nil)
		return
	}
	in := view.IntentInput{Template: &t.Template}
	in.Leases, in.Intent = e.intentOf(sp, t)
	for checkpointName := range sp.ofTemplate[name] {
		if v := sp.retained[checkpointName].view; v != nil {
			in.Checkpoints = append(in.Checkpoints, v)
		}
	}
	slices.SortFunc(in.Checkpoints, func(a, b *views.RetainedCheckpoint) int { return strings.Compare(a.Name, b.Name) })
	v := view.Intent(&in)
	e.metrics.conditions(sp.namespace, name, v.Status.Conditions)
	e.views.Intents.Set(v)
}
