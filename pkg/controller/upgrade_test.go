package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// leaveAsEarlierRelease puts the intent where 0.6 kept it, by a leader of that
// release: on the leader-election Lease, without a holder, and no
// retained-state Lease unless stale is what it should hold.
func (in *installation) leaveAsEarlierRelease(intent fencing.Intent, stale *fencing.Intent) {
	in.t.Helper()
	lease := in.lease("web-leader")
	l := record.ElectionLease(lease)
	intent.Epoch, intent.Claim, intent.Holder, intent.Active = l.Epoch+1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "", nil
	// It writes the epoch, but not the template's name beside it.
	older := record.WithEpoch(record.WithIntent(lease, intent), intent.Epoch, l.Template)
	delete(older.Annotations, record.AnnotationLeaderTemplate)
	in.update(older)
	if stale == nil {
		in.must(in.core.CoordinationV1().Leases(namespace).Delete(in.t.Context(), retainedName, metav1.DeleteOptions{}))
		return
	}
	in.update(record.WithIntent(in.lease(retainedName), *stale))
}

// ADR-0033, "Upgrade": the intent is left where 0.6 kept it.
func TestUpgradedLeaderKeepsTheDeploymentIntentOfAnEarlierRelease(t *testing.T) {
	tests := []struct {
		name string
		// rolledBack leaves the record that a 0.7 leader wrote before the rollback.
		rolledBack bool
	}{
		{name: "from a release that had no other record"},
		{name: "after a rollback, whose older record stayed", rolledBack: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			install(t, func(t *testing.T, in *installation) {
				leader, old, earlier, intent := throttled(in)
				leader.end()
				in.must(leader.err)
				var stale *fencing.Intent
				if tc.rolledBack {
					stale = &earlier
				}
				in.leaveAsEarlierRelease(intent, stale)
				before := old.loaded()
				in.set(broken())
				fresh := in.addPod()

				in.start("c2")
				pass(30 * time.Second)
				if diff := cmp.Diff([]string{"recovered " + intent.PlanID}, fresh.loaded()); diff != "" {
					t.Errorf("what the new pod loaded (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(before, old.loaded()); diff != "" {
					t.Errorf("what the configured pod loaded (-want +got):\n%s", diff)
				}
				if l := record.ElectionLease(in.lease("web-leader")); l.Copy.Present {
					t.Errorf("the leader-election lease still holds the copy %s", l.Copy.Text)
				}
				if now := in.intent(); !now.Names(intent.PlanID, intent.Checksum) || now.Holder == "" {
					t.Errorf("the retained-state lease holds %+v, want plan %s and a holder", now, intent.PlanID)
				}
			})
		})
	}
}
