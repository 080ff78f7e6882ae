package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

const (
	// statusTimeout bounds a status write, which the next render waits for.
	statusTimeout = 10 * time.Second
	// statusAttempts bounds how often a conflict is met by reading again.
	statusAttempts = 4
	// statusRetry is the time until a status is tried again that was not written.
	statusRetry = 5 * time.Second
	// maxNoteBytes is the API's limit for the text of an event.
	maxNoteBytes = 1024
	// maxMessageBytes bounds the text of the condition.
	maxMessageBytes = 2048
)

// Messages of a passed render. They are constant, so that an output that
// changes every few seconds does not write the template's status each time.
const messageAccepted = "The last render passed its templates and HAProxy's check."

// eventDocuments is the reason of the event on documents that are not used as
// they are now.
const eventDocuments = "HTTPResourcesNotCurrent"

// templates is what is needed of the generated client.
type templates interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.HAProxyTemplateConfig, error)
	UpdateStatus(ctx context.Context, template *v1alpha1.HAProxyTemplateConfig, opts metav1.UpdateOptions) (*v1alpha1.HAProxyTemplateConfig, error)
}

// eventRecorder is what is needed of client-go's recorder.
type eventRecorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// reporter tells users of the template how renders end. It serves one term, whose
// renders one goroutine reports, while Run sees to what was not written.
type reporter struct {
	client templates
	events eventRecorder
	// check says whether the term may still write.
	check func(ctx context.Context) error

	// last is the last event, so that an unchanged failure is told once a term.
	lastReason, lastMessage string
	// lastProblems is the last event's text about documents.
	lastProblems string

	// again tells Run that there is something to write.
	again chan struct{}
	// turn is held by whoever writes. A channel, because a write takes its time and
	// whoever waits for it must be able to give up.
	turn chan struct{}
	// unwritten is the newest status, while it is not stored.
	unwritten *statusUpdate
}

func newReporter(client templates, events eventRecorder, check func(ctx context.Context) error) *reporter {
	return &reporter{client: client, events: events, check: check, again: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// statusUpdate is what a template's status is to say.
type statusUpdate struct {
	template           *v1alpha1.HAProxyTemplateConfig
	condition, fetched metav1.Condition
}

// report writes the condition if it differs and an event if there is news.
func (r *reporter) report(ctx context.Context, o outcome) {
	message := o.message
	if !o.failed {
		message = messageAccepted
	}
	if o.reason != r.lastReason || message != r.lastMessage {
		kind := corev1.EventTypeNormal
		if o.failed {
			kind = corev1.EventTypeWarning
		}
		r.events.Event(o.template, kind, o.reason, cutText(message, maxNoteBytes))
		r.lastReason, r.lastMessage = o.reason, message
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionValidated, Status: metav1.ConditionTrue, Reason: o.reason,
		Message: cutText(message, maxMessageBytes), ObservedGeneration: o.template.Generation,
	}
	if o.failed {
		condition.Status = metav1.ConditionFalse
	}
	update := &statusUpdate{template: o.template, condition: condition, fetched: r.documents(o)}
	select {
	case r.turn <- struct{}{}:
		r.put(ctx, update)
		<-r.turn
	case <-ctx.Done():
	}
}

// put writes a status, or keeps it to be written later: the next render may be an
// hour away, or end in the same way. What the API server does not take stays out.
func (r *reporter) put(ctx context.Context, update *statusUpdate) {
	r.unwritten = nil
	err := r.write(ctx, update)
	if err == nil || ctx.Err() != nil {
		return
	}
	klog.FromContext(ctx).Info("Did not write the template's status", "err", err)
	if errors.Is(err, fencing.ErrFenced) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
		return
	}
	r.unwritten = update
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// Run writes later what could not be written at once, until ctx ends.
func (r *reporter) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.again:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(statusRetry):
		}
		select {
		case <-ctx.Done():
			return
		case r.turn <- struct{}{}:
		}
		if r.unwritten != nil {
			r.put(ctx, r.unwritten)
		}
		<-r.turn
	}
}

// Reasons of the condition about documents.
const (
	reasonCurrent    = "Current"
	reasonNotCurrent = "NotCurrent"
)

// documents is the condition about httpResources, or one without a type for a
// template that has none. News of it is an event.
func (r *reporter) documents(o outcome) metav1.Condition {
	condition := metav1.Condition{ObservedGeneration: o.template.Generation}
	if len(o.template.Spec.HTTPResources) == 0 {
		return condition
	}
	condition.Type, condition.Status, condition.Reason = v1alpha1.ConditionHTTPResources, metav1.ConditionTrue, reasonCurrent
	problems := strings.Join(o.problems, "; ")
	if problems != "" {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonNotCurrent, cutText(problems, maxMessageBytes)
	}
	if problems != "" && problems != r.lastProblems {
		r.events.Event(o.template, corev1.EventTypeWarning, eventDocuments, cutText(problems, maxNoteBytes))
	}
	r.lastProblems = problems
	return condition
}

// write sets the conditions by compare-and-swap, reading again after a conflict.
func (r *reporter) write(ctx context.Context, update *statusUpdate) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	template, condition, fetched := update.template, update.condition, update.fetched
	uid := template.UID
	for range statusAttempts {
		next := template.DeepCopy()
		changed := meta.SetStatusCondition(&next.Status.Conditions, condition)
		if fetched.Type != "" {
			changed = meta.SetStatusCondition(&next.Status.Conditions, fetched) || changed
		} else {
			changed = meta.RemoveStatusCondition(&next.Status.Conditions, v1alpha1.ConditionHTTPResources) || changed
		}
		if !changed && next.Status.ObservedGeneration == condition.ObservedGeneration {
			return nil
		}
		next.Status.ObservedGeneration = condition.ObservedGeneration
		if err := r.check(ctx); err != nil {
			return err
		}
		_, err := r.client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
		if template, err = r.client.Get(ctx, template.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if template.UID != uid {
			return fmt.Errorf("the template is another object now, with UID %s", template.UID)
		}
	}
	return fmt.Errorf("gave up after %d conflicts", statusAttempts)
}

// cutText cuts at a character's border.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}
