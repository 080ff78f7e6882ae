package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

// snapshot is a collection during which nothing changed.
func snapshot(t testing.TB, promoted ...*stored) selection.Snapshot {
	t.Helper()
	s := selection.Snapshot{Before: ordinary(promoted...), After: ordinary(promoted...), Checkpoints: map[string]*v1alpha1.HAProxyCfg{}}
	for _, p := range promoted {
		s.Checkpoints[p.checkpoint.Name] = p.checkpoint
		for _, child := range p.children {
			switch o := child.(type) {
			case *v1alpha1.HAProxyMapFile:
				s.Children = append(s.Children, record.MapFile(o))
			case *v1alpha1.HAProxyGeneralFile:
				s.Children = append(s.Children, record.GeneralFile(o))
			case *corev1.Secret:
				s.Children = append(s.Children, record.Secret(o))
			}
		}
	}
	return s
}

func intentFor(o *checkpoint.Output) fencing.Intent {
	return fencing.Intent{UID: web.UID, PlanID: o.Plan.ID, Checksum: o.Checksum()}
}

func secretOf(s *stored) *corev1.Secret {
	for _, child := range s.children {
		if secret, ok := child.(*corev1.Secret); ok {
			return secret
		}
	}
	return nil
}

func TestOnlyTheIntendedCheckpointIsChosen(t *testing.T) {
	one, two := site(t, "one"), site(t, "two")
	now := metav1.NewTime(time.Unix(1, 0))
	tests := []struct {
		name   string
		make   func(t *testing.T) (selection.Snapshot, fencing.Intent)
		want   selection.Reason
		text   string
		chosen *checkpoint.Output
	}{
		{name: "the newest", chosen: two, make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
			return snapshot(t, publish(t, two), publish(t, one)), intentFor(two)
		}},
		{name: "the intended one although another stands first", chosen: one, make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
			return snapshot(t, publish(t, two), publish(t, one)), intentFor(one)
		}},
		{name: "the intended one beside a damaged predecessor", chosen: two, make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
			old := publish(t, one)
			old.checkpoint.Spec.Content += "# more"
			return snapshot(t, publish(t, two), old), intentFor(two)
		}},
		{name: "none without an intent's checkpoint", want: selection.ReasonIntentOutranCheckpoint, text: "there is no override",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				return snapshot(t, publish(t, one)), intentFor(two)
			}},
		{name: "none when the intended checkpoint's bytes were changed", want: selection.ReasonCheckpointDamaged, text: "PlanDigestMismatch",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				s := publish(t, one)
				s.checkpoint.Spec.Content += " "
				return snapshot(t, s), intentFor(one)
			}},
		{name: "none when a certificate's bytes were changed and its annotation was not", want: selection.ReasonCheckpointDamaged, text: "ChecksumMismatch",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				s := publish(t, one)
				secretOf(s).Data[v1alpha1.SecretKeyCertificate] = []byte("other")
				return snapshot(t, s), intentFor(one)
			}},
		{name: "none when a file is missing", want: selection.ReasonCheckpointDamaged, text: "ChildMissing",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				s := publish(t, one)
				s.children = s.children[1:]
				return snapshot(t, s), intentFor(one)
			}},
		{name: "none when a file has another owner", want: selection.ReasonCheckpointDamaged, text: "OwnerMismatch",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				s := publish(t, one)
				secretOf(s).OwnerReferences[0].UID = "other"
				return snapshot(t, s), intentFor(one)
			}},
		{name: "none when the checkpoint is gone", want: selection.ReasonCheckpointDamaged, text: "found none",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				s := publish(t, one)
				snap := snapshot(t, s)
				snap.Checkpoints[s.checkpoint.Name] = nil
				return snap, intentFor(one)
			}},
		{name: "none when the pointer has another UID", want: selection.ReasonCheckpointDamaged, text: "PointerMismatch",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				snap := snapshot(t, publish(t, one))
				snap.Before.Status.RetainedConfigs[0].UID, snap.After.Status.RetainedConfigs[0].UID = "x", "x"
				return snap, intentFor(one)
			}},
		{name: "none when the plan is of another format", want: selection.ReasonCheckpointUnknown, text: "UnsupportedSchema",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				later := site(t, "one")
				later.Plan.SchemaVersion++
				later.Plan.ID = ""
				later.Plan.ID, _ = later.Plan.ComputeID()
				return snapshot(t, publish(t, later)), intentFor(later)
			}},
		{name: "none without a receipt", want: selection.ReasonCheckpointUnacknowledged, text: "no receipt",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				s := publish(t, one)
				s.checkpoint.Status.DeployedToPods[0].Mode = v1alpha1.ModeScheduled
				return snapshot(t, s), intentFor(one)
			}},
		{name: "none without pointers", want: selection.ReasonNoCheckpoint, text: "retainedConfigs",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) { return snapshot(t), intentFor(one) }},
		{name: "none without an ordinary output", want: selection.ReasonNoCheckpoint, text: "web-haproxycfg",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) { return selection.Snapshot{}, intentFor(one) }},
		{name: "none from an object that another template owns", want: selection.ReasonPointerUntrusted, text: `"other"`,
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				snap := snapshot(t, publish(t, one))
				snap.Before.OwnerReferences[0].UID = "other"
				return snap, intentFor(one)
			}},
		{name: "none from an object that is being deleted", want: selection.ReasonPointerUntrusted, text: "being deleted",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				snap := snapshot(t, publish(t, one))
				snap.Before.DeletionTimestamp = &now
				return snap, intentFor(one)
			}},
		{name: "none when the pointers changed meanwhile", want: selection.ReasonSnapshotChanged, text: "status.retainedConfigs",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				snap := snapshot(t, publish(t, one))
				snap.After = ordinary(publish(t, two), publish(t, one))
				return snap, intentFor(one)
			}},
		{name: "none when the object was created anew meanwhile", want: selection.ReasonSnapshotChanged, text: "UID",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				snap := snapshot(t, publish(t, one))
				snap.After.UID = "new"
				return snap, intentFor(one)
			}},
		{name: "none when the owner changed meanwhile", want: selection.ReasonSnapshotChanged, text: "owner",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				snap := snapshot(t, publish(t, one))
				snap.After.OwnerReferences = nil
				return snap, intentFor(one)
			}},
		{name: "none when the object went away meanwhile", want: selection.ReasonSnapshotChanged, text: "existence",
			make: func(t *testing.T) (selection.Snapshot, fencing.Intent) {
				snap := snapshot(t, publish(t, one))
				snap.After = nil
				return snap, intentFor(one)
			}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			snap, intent := tc.make(t)
			choice, refusal := selection.Choose(web, snap, intent)
			if tc.want != "" {
				if refusal == nil || refusal.Reason != tc.want || refusal.Checksum != intent.Checksum || !strings.Contains(refusal.Error(), tc.text) {
					t.Errorf("refusal = %v, want %s that mentions %q and carries the intent's checksum", refusal, tc.want, tc.text)
				}
				return
			}
			if refusal != nil {
				t.Fatalf("refused: %v", refusal)
			}
			// Every byte of every file is the one that was published.
			if diff := cmp.Diff(fileStates(tc.chosen), fileStates(choice.Output)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if choice.Output.Checksum() != tc.chosen.Checksum() || choice.Output.Plan.ID != tc.chosen.Plan.ID {
				t.Errorf("chose %s, want %s", choice.Output.Plan.ID, tc.chosen.Plan.ID)
			}
		})
	}
}

func TestADamagedPredecessorIsNamed(t *testing.T) {
	one, two := site(t, "one"), site(t, "two")
	old := publish(t, one)
	old.checkpoint.Spec.Content += "# more"
	choice, refusal := selection.Choose(web, snapshot(t, publish(t, two), old), intentFor(two))
	if refusal != nil {
		t.Fatal(refusal)
	}
	if diff := cmp.Diff([]string{old.checkpoint.Name + " (PlanDigestMismatch)"}, choice.Damaged); diff != "" {
		t.Errorf("damaged (-want +got):\n%s", diff)
	}
}

func TestAPointerThatWasNotReadCountsAsAbsent(t *testing.T) {
	one, two := site(t, "one"), site(t, "two")
	old := publish(t, one)
	snap := snapshot(t, publish(t, two), old)
	delete(snap.Checkpoints, old.checkpoint.Name)
	choice, refusal := selection.Choose(web, snap, intentFor(two))
	if refusal != nil || len(choice.Damaged) > 0 {
		t.Errorf("selection.Choose() = %+v, %v, want the newest and nothing said of what was not read", choice, refusal)
	}
}
