package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// TestADrillRepeatsTheControllersLastWord: what only the controller can know is
// told by the newest of its events about this very template, and decides nothing.
func TestADrillRepeatsTheControllersLastWord(t *testing.T) {
	t.Parallel()
	const text = "Checkpoint 1: PodViolating: pod proxy-0: expected its invariants to hold"
	tests := []struct{ name, reason, message, want, says string }{
		{"a refusal", "RetainedConfigUnavailable", text, "PodViolating", text},
		{"a refusal after ten others", "RetainedConfigUnavailable", "(combined from similar events): " + text, "PodViolating", text},
		{"a recovery", "RetainedConfigActive", "Checkpoint 1 is given: RenderFailed: line 1", "", "Checkpoint 1 is given: RenderFailed: line 1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newFleet(t)
			add := func(name, uid, reason, message string, minute int) {
				event := &corev1.Event{ObjectMeta: e.meta(name, "uid-"+name), Reason: reason, Message: message,
					InvolvedObject: corev1.ObjectReference{UID: types.UID(uid)},
					LastTimestamp:  metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC))}
				event.SetGroupVersionKind(schema.FromAPIVersionAndKind("v1", KindEvent))
				e.others = append(e.others, event)
			}
			add("old", templateUID, "RetainedConfigActive", "Checkpoint 1 is given to bootstrap pods", 4)
			add("new", templateUID, tc.reason, tc.message, 5)
			add("other", "another-uid", "RetainedConfigUnavailable", "Checkpoint 2: PodForeign: pod x", 6)
			add("else", templateUID, "Rendered", "fine", 7)
			report := drillFiles(t, e, DrillSettings{})
			want := Check{Name: "controller", Result: NotChecked, Reason: tc.want,
				Message: "its last word, of 2026-01-02T03:05:00Z, " + tc.reason + ": " + tc.says}
			if diff := cmp.Diff(want, report.Checks[len(report.Checks)-1]); diff != "" {
				t.Errorf("last check (-want +got):\n%s", diff)
			}
			if report.Answer != AnswerYes {
				t.Errorf("answer %s, want %s: the trouble may be over", report.Answer, AnswerYes)
			}
		})
	}
}
