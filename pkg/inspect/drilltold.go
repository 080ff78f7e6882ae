package inspect

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/pkg/selection"
)

const checkTold = "controller"

// putEvent keeps the newest event of a recovery for each template.
func (sp *space) putEvent(e *corev1.Event) {
	if e.Reason != selection.EventActive && e.Reason != selection.EventUnavailable {
		return
	}
	if sp.told == nil {
		sp.told = map[string]*corev1.Event{}
	}
	uid := string(e.InvolvedObject.UID)
	if before := sp.told[uid]; before == nil || before.LastTimestamp.Before(&e.LastTimestamp) {
		sp.told[uid] = e
	}
}

// tell adds what the controller told last. It knows more than what is stored: it
// asks the pods, and HAProxy. But it tells the same text once a term, so that an
// event may be of a trouble that is over, and decides nothing here.
func (d *drill) tell() {
	event := d.sp.told[d.template.UID]
	if event == nil {
		d.skip(checkTold, "no event of a recovery is kept, or there is no right to list events")
		return
	}
	when := event.LastTimestamp.UTC().Format(time.RFC3339)
	text := strings.TrimSuffix(strings.TrimPrefix(event.Message, aggregated), ".")
	d.add(Check{Name: checkTold, Result: NotChecked, Reason: toldReason(event.Reason, text),
		Message: fmt.Sprintf("its last word, of %s, %s: %s", when, event.Reason, text)})
}

// aggregated begins the text of an event that stands for many: client-go makes one
// of every further text on an object that has had ten within ten minutes.
const aggregated = "(combined from similar events): "

// toldReason is the reason within the text of a refusal, empty for a recovery.
func toldReason(event, text string) string {
	if event != selection.EventUnavailable {
		return ""
	}
	_, text, _ = strings.Cut(text, ": ")
	reason, _, found := strings.Cut(text, ": ")
	if !found || strings.ContainsAny(reason, " \t") {
		return ""
	}
	return reason
}
