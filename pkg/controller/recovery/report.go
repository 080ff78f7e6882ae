package recovery

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

// refuse tells a refusal. One that passes by itself is no event.
func (r *Recovery) refuse(ctx context.Context, f *selection.Refusal, cause Cause, excluded []Excluded) {
	r.metrics.Refusals.WithLabelValues(string(f.Reason)).Inc()
	r.health(f.Error() + also(f))
	if f.Quiet {
		klog.FromContext(ctx).V(2).Info("Started no pod from a checkpoint yet", "reason", f.Reason, "err", f.Message)
		return
	}
	if r.notes.isNews(selection.EventUnavailable, unavailableNote(f, cause, nil)) {
		r.parts.Sink.Event(selection.EventUnavailable, unavailableNote(f, cause, excluded))
		klog.FromContext(ctx).Info("Refused to start pods from a checkpoint", "reason", f.Reason, "checksum", f.Checksum, "err", f.Message)
	}
}

// schedule makes known that a verified checkpoint is used from now on. It is
// false when recovery was cancelled.
func (r *Recovery) schedule(ctx context.Context, d *decision, cause Cause, excluded []Excluded) bool {
	checksum := d.choice.Output.Checksum()
	r.mu.Lock()
	if r.cause == nil {
		r.mu.Unlock()
		return false
	}
	r.metrics.Active.Set(1)
	if r.active.checksum != checksum {
		r.active.mark, r.active.marked = markOf(d.intent, checksum), false
	}
	r.active.used, r.active.checksum = true, checksum
	r.mu.Unlock()
	r.setMark(ctx)
	if ctx.Err() != nil {
		return false
	}
	if r.notes.isNews(selection.EventActive, activeNote(*d.choice, cause, nil)) {
		r.parts.Sink.Event(selection.EventActive, activeNote(*d.choice, cause, excluded))
		klog.FromContext(ctx).Info("Used a checkpoint to start pods", "checkpoint", d.choice.Name, "checksum", checksum, "plan", d.target.PlanID)
	}
	r.health(r.standing())
	return true
}

// markOf is the mark for a checkpoint, the one that is there already if it is of
// the same.
func markOf(intent fencing.Intent, checksum string) *fencing.Active {
	if intent.Active != nil && intent.Active.Checksum == checksum {
		return intent.Active
	}
	return &fencing.Active{Checksum: checksum, Since: time.Now().UTC().Truncate(time.Second)}
}

// setMark marks recovery on the Lease, unless it is marked. The mark is for those
// who look on: capacity does not wait for it, and a later attempt sets it. It is
// false when there still is something to mark.
func (r *Recovery) setMark(ctx context.Context) bool {
	if !r.active.used || r.active.marked {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, r.settings.Timeout)
	defer cancel()
	if err := r.parts.Term.Activate(ctx, r.active.mark); err != nil {
		klog.FromContext(ctx).Info("Did not mark recovery on the retained-state lease", "checksum", r.active.checksum, "err", err)
		return false
	}
	r.active.marked = true
	return true
}

// standing is what health says while there is nothing to refuse.
func (r *Recovery) standing() string {
	if !r.active.used {
		return ""
	}
	return fmt.Sprintf("bootstrap pods are started from checkpoint %s until rendering succeeds", r.active.checksum)
}

// health tells the text, unless recovery has ended meanwhile.
func (r *Recovery) health(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil {
		r.parts.Sink.Health(text)
	}
}
