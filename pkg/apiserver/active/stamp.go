package active

import (
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StampAnnotation on the Lease says how far versions have come, in milliseconds
// since 1970. A new term begins above it.
const StampAnnotation = "retained.haproxy-haptic.org/versions-stamp"

// lastStamp is the highest that is believed. Versions have room until 2554, and
// a stamp close to that would leave none to those who come after.
var lastStamp = time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)

// stampOf reads the recorded stamp. One that nobody can have meant counts as
// none: a spoiled annotation must not keep every replica from serving.
func stampOf(lease *coordinationv1.Lease) (stamp time.Time, ok bool) {
	milliseconds, err := strconv.ParseInt(lease.Annotations[StampAnnotation], 10, 64)
	if err != nil || milliseconds <= 0 || time.UnixMilli(milliseconds).After(lastStamp) {
		return time.Time{}, false
	}
	return time.UnixMilli(milliseconds), true
}

func setStamp(lease *coordinationv1.Lease, stamp time.Time) {
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, StampAnnotation, strconv.FormatInt(stamp.UnixMilli(), 10))
}

// nextStamp is where a new term begins: now, unless one of the stamps that were
// used before is as late as that.
func nextStamp(now time.Time, used ...time.Time) time.Time {
	next := time.UnixMilli(now.UnixMilli())
	for _, stamp := range used {
		if !next.After(stamp) {
			next = stamp.Add(time.Millisecond)
		}
	}
	return next
}
