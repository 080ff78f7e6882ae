package view

import (
	"fmt"
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage is what the API conventions allow a condition's message to be.
const maxMessage = 32768

// finding is a condition in the making.
type finding struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	since   time.Time
}

func isTrue(reason, message string, since time.Time) finding {
	return finding{metav1.ConditionTrue, reason, message, since}
}

func isFalse(reason, message string, since time.Time) finding {
	return finding{metav1.ConditionFalse, reason, message, since}
}

func isUnknown(reason, message string, since time.Time) finding {
	return finding{metav1.ConditionUnknown, reason, message, since}
}

func (f finding) condition(conditionType string) metav1.Condition {
	message := f.message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	return metav1.Condition{
		Type:   conditionType,
		Status: f.status,
		Reason: f.reason,
		// Thousands of views say the same of the same intent.
		Message:            unique.Make(message).Value(),
		LastTransitionTime: metav1.NewTime(f.since.UTC().Truncate(time.Second)),
	}
}

// requirement is one of several conditions that must all be true.
type requirement struct {
	finding
	// unmet is the reason of the whole if this one is false, and lacks says what
	// is missing then, before the requirement's own reason and message.
	unmet, lacks string
}

// all is true if every requirement is. Otherwise it is the first that is
// false, or else the first that is unknown: what is known to be wrong matters
// more than what nobody can know.
func all(requirements []requirement, reason, message string) finding {
	var newest time.Time
	for _, r := range requirements {
		newest = latest(newest, r.since)
		if r.status == metav1.ConditionFalse {
			return isFalse(r.unmet, r.explain(), r.since)
		}
	}
	for _, r := range requirements {
		if r.status != metav1.ConditionTrue {
			return isUnknown(r.reason, r.explain(), r.since)
		}
	}
	return isTrue(reason, message, newest)
}

func (r requirement) explain() string {
	return fmt.Sprintf("%s: %s", r.lacks, r.message)
}
