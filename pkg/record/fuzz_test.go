package record

import (
	"errors"
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// FuzzElectionLease reads any text as the annotations of a leader-election
// Lease: an epoch is a decimal number that is written back as it was meant, or
// an error, and never a guess.
func FuzzElectionLease(f *testing.F) {
	f.Add("7", "t-uid/web", `{"uid":"t-uid","epoch":7,"claim":"c"}`)
	f.Add("18446744073709551615", "t-uid/", "")
	f.Add("18446744073709551616", "/web", "{}")
	f.Add("-1", "", "null")
	f.Fuzz(func(t *testing.T, epoch, template, intent string) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"haptic.io/leader-epoch": epoch, AnnotationLeaderTemplate: template, "haproxy-haptic.org/deployment-intent": intent,
		}}}
		read := ElectionLease(lease)
		if !read.EpochPresent {
			t.Fatal("the annotation was not seen")
		}
		if read.EpochErr != nil {
			if !errors.Is(read.EpochErr, fencing.ErrUnreadable) || read.Epoch != 0 {
				t.Fatalf("epoch %d with error %v", read.Epoch, read.EpochErr)
			}
			return
		}
		if parsed, err := strconv.ParseUint(epoch, 10, 64); err != nil || parsed != read.Epoch {
			t.Fatalf("%q was read as %d", epoch, read.Epoch)
		}
		again := ElectionLease(WithEpoch(lease, read.Epoch, read.Template))
		if again.EpochErr != nil || again.Epoch != read.Epoch || again.Template != read.Template {
			t.Fatalf("written and read again: epoch %d, template %+v, error %v; want epoch %d, template %+v",
				again.Epoch, again.Template, again.EpochErr, read.Epoch, read.Template)
		}
		if got := RetainedLease(WithIntent(lease, read.Copy.Intent)).Intent; read.Copy.Err == nil && got.Err != nil {
			t.Fatalf("an intent that was readable is not once it is written: %v", got.Err)
		}
	})
}
