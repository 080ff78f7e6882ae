package view

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

var (
	created  = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	modified = created.Add(time.Minute)
	recorded = created.Add(2 * time.Minute)
)

const (
	planID      = "fedcba9876543210"
	checksum    = "0123456789abcdef"
	templateUID = "t1"
)

// soundInput is a checkpoint that recovery would use.
func soundInput() *CheckpointInput {
	return &CheckpointInput{
		Meta:         checkpoint.Meta{Namespace: "edge", Name: "c1", UID: "u1", Created: created},
		Labels:       map[string]string{"l": "v"},
		TemplateName: "web", TemplateUID: templateUID,
		Modified: modified,
		Verdict: checkpoint.Verdict{
			State: checkpoint.Verified, Reason: checkpoint.ReasonVerified,
			Checksum: checksum, PlanID: planID, Acknowledged: true,
			Receipt: &checkpoint.PodEntry{PodName: "p1", PodUID: "pu", PodRuntimeID: "r", Mode: "reload"},
		},
		Template: &Template{Namespace: "edge", Name: "web", UID: templateUID, Created: created},
		Output:   &Output{Pointers: []checkpoint.Pointer{{Name: "c0"}, {Name: "c1", UID: "u1", Checksum: checksum}}},
		Leases:   soundLeases(),
		Intent:   fencing.EffectiveIntent{Source: fencing.SourceRetained, Intent: soundIntent()},
	}
}

func soundIntent() fencing.Intent {
	return fencing.Intent{UID: templateUID, Epoch: 7, Claim: "CLAIM", PlanID: planID, Checksum: checksum, Holder: "h1"}
}

func soundLeases() Leases {
	return Leases{
		Readable: true, ElectionName: "web-leader", RetainedName: "web-retained-state", Recorded: recorded, Acquired: created,
		Election: fencing.ElectionLease{Exists: true, Holder: "h1", Epoch: 7, EpochPresent: true, Template: fencing.TemplateRef{UID: templateUID}},
	}
}

// conditionsOf lists what differs from a sound view, one condition a line.
func conditionsOf(conditions []metav1.Condition) map[string]string {
	got := map[string]string{}
	for _, c := range conditions {
		got[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
	}
	return got
}

func with(base map[string]string, changes map[string]string) map[string]string {
	merged := map[string]string{}
	for k, v := range base {
		merged[k] = v
	}
	for k, v := range changes {
		merged[k] = v
	}
	return merged
}

func TestCheckpointConditions(t *testing.T) {
	base := map[string]string{
		"Verified": "True Verified", "Promoted": "True Promoted", "Acknowledged": "True ReceiptStored",
		"Intended": "True Intended", "Recoverable": "True Recoverable",
	}
	tests := []struct {
		name   string
		change func(in *CheckpointInput)
		want   map[string]string
	}{
		{"sound", func(*CheckpointInput) {}, nil},
		{"damaged", func(in *CheckpointInput) {
			in.Verdict.State, in.Verdict.Reason = checkpoint.Damaged, checkpoint.ReasonChecksumMismatch
		}, map[string]string{"Verified": "False ChecksumMismatch", "Recoverable": "False NotVerified"}},
		{"not known yet", func(in *CheckpointInput) {
			in.Verdict.State, in.Verdict.Reason = checkpoint.Unknown, checkpoint.ReasonVerifying
		}, map[string]string{"Verified": "Unknown Verifying", "Recoverable": "Unknown Verifying"}},
		{"what is wrong outweighs what is unknown", func(in *CheckpointInput) {
			in.Verdict.State, in.Verdict.Reason = checkpoint.Unknown, checkpoint.ReasonVerifying
			in.Verdict.Acknowledged, in.Verdict.Receipt = false, nil
		}, map[string]string{"Verified": "Unknown Verifying", "Acknowledged": "False ReceiptMissing", "Recoverable": "False NotAcknowledged"}},
		{"not promoted", func(in *CheckpointInput) { in.Output.Pointers = nil },
			map[string]string{"Promoted": "False Unpromoted", "Recoverable": "False NotPromoted"}},
		{"no ordinary output", func(in *CheckpointInput) { in.Output = nil },
			map[string]string{"Promoted": "False OrdinaryOutputMissing", "Recoverable": "False NotPromoted"}},
		{"no template", func(in *CheckpointInput) { in.Template = nil },
			map[string]string{"Recoverable": "False TemplateMissing"}},
		{"terminating", func(in *CheckpointInput) { in.Meta.Terminating = true },
			map[string]string{"Recoverable": "False Terminating"}},
		{"payload unreadable", func(in *CheckpointInput) {
			in.Verdict.State, in.Verdict.Reason, in.Verdict.PlanID = checkpoint.Damaged, checkpoint.ReasonPayloadUnreadable, ""
			in.Verdict.Acknowledged, in.Verdict.Receipt = false, nil
		}, map[string]string{
			"Verified": "False PayloadUnreadable", "Acknowledged": "Unknown PlanUnreadable",
			"Intended": "Unknown PlanUnreadable", "Recoverable": "False NotVerified",
		}},
		{"the intent moved on", func(in *CheckpointInput) { in.Intent.Intent.Checksum = "another" },
			map[string]string{"Intended": "False IntentNamesAnotherOutput", "Recoverable": "False NotIntended"}},
		{"no intent", func(in *CheckpointInput) { in.Intent = fencing.EffectiveIntent{} },
			map[string]string{"Intended": "False NoIntent", "Recoverable": "False NotIntended"}},
		{"intent unreadable", func(in *CheckpointInput) { in.Intent = fencing.EffectiveIntent{Problem: errors.New("broken")} },
			map[string]string{"Intended": "Unknown IntentUnreadable", "Recoverable": "Unknown IntentUnreadable"}},
		{"no right to read Leases", func(in *CheckpointInput) { in.Leases = Leases{} },
			map[string]string{"Intended": "Unknown NotPermitted", "Recoverable": "Unknown NotPermitted"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := soundInput()
			tc.change(in)
			if diff := cmp.Diff(with(base, tc.want), conditionsOf(Checkpoint(in).Status.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPositionFollowsThePointers(t *testing.T) {
	in := soundInput()
	for i, want := range []views.Position{views.PositionNewest, views.PositionPredecessor, views.PositionRetained, views.PositionRetained} {
		in.Output.Pointers = make([]checkpoint.Pointer, 4)
		in.Output.Pointers[i].Name = "c1"
		if got := Checkpoint(in).Status.Position; got != want {
			t.Errorf("position at pointer %d = %s, want %s", i, got, want)
		}
	}
}

func TestViewHasIdentityAndTimesOfStoredObjects(t *testing.T) {
	in := soundInput()
	v := Checkpoint(in)
	if v.UID == "u1" || v.UID != Checkpoint(in).UID || len(v.UID) != 36 || v.UID[14] != '5' {
		t.Errorf("UID = %s, want a stable UUIDv5 of the stored one", v.UID)
	}
	if !v.CreationTimestamp.Time.Equal(created) || v.ManagedFields != nil || v.Annotations != nil {
		t.Errorf("metadata = %+v", v.ObjectMeta)
	}
	times := map[string]time.Time{}
	for _, c := range v.Status.Conditions {
		times[c.Type] = c.LastTransitionTime.Time
	}
	want := map[string]time.Time{"Verified": modified, "Promoted": modified, "Acknowledged": modified, "Intended": recorded, "Recoverable": recorded}
	if diff := cmp.Diff(want, times); diff != "" {
		t.Errorf("transition times (-want +got):\n%s", diff)
	}
}

func TestPodsThatReportTheChecksumAreSorted(t *testing.T) {
	in := soundInput()
	in.Output.Pods = []checkpoint.PodEntry{
		{PodName: "b", PodUID: "2", Checksum: checksum, RunningPlanID: planID},
		{PodName: "c", Checksum: "another"},
		{PodName: "a", PodUID: "1", Checksum: checksum},
	}
	want := []views.PodReport{{Name: "a", UID: "1"}, {Name: "b", UID: "2", RunningPlanID: planID}}
	if diff := cmp.Diff(want, Checkpoint(in).Status.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestVerdictNamesTheFileAndCountsTheRest(t *testing.T) {
	in := soundInput()
	finding := checkpoint.Finding{State: checkpoint.Damaged, Reason: checkpoint.ReasonChecksumMismatch, Message: "HAProxyMapFile/x: checksum differs"}
	in.Verdict.State, in.Verdict.Reason, in.Verdict.Message = finding.State, finding.Reason, finding.Message
	in.Verdict.Findings = []checkpoint.Finding{finding, {State: checkpoint.Note}, finding, finding}
	in.Verdict.Artifacts = []checkpoint.ArtifactVerdict{{
		Descriptor: checkpoint.Descriptor{Family: checkpoint.Map, Path: "maps/hosts.map"},
		State:      finding.State, Reason: finding.Reason, Message: finding.Message,
	}}
	verified := meta.FindStatusCondition(Checkpoint(in).Status.Conditions, views.ConditionVerified)
	if want := "file maps/hosts.map: HAProxyMapFile/x: checksum differs (and 2 more findings)"; verified.Message != want {
		t.Errorf("message = %q, want %q", verified.Message, want)
	}
}

func soundIntentInput() *IntentInput {
	return &IntentInput{
		Template:    &Template{Namespace: "edge", Name: "web", UID: templateUID, Created: created},
		Leases:      soundLeases(),
		Intent:      fencing.EffectiveIntent{Source: fencing.SourceRetained, Intent: soundIntent()},
		Checkpoints: []*views.RetainedCheckpoint{Checkpoint(soundInput())},
	}
}

func TestIntentConditions(t *testing.T) {
	base := map[string]string{
		"Readable": "True IntentRead", "Fenced": "True LeaderRecorded", "Checkpointed": "True CheckpointStored",
		"Recoverable": "True Recoverable", "Active": "False NotActive",
	}
	tests := []struct {
		name   string
		change func(in *IntentInput)
		want   map[string]string
	}{
		{"sound", func(*IntentInput) {}, nil},
		{"recovery in force", func(in *IntentInput) {
			in.Intent.Intent.Active = &fencing.Active{Checksum: checksum, Since: recorded}
		}, map[string]string{"Active": "True Recovering"}},
		{"beside another controller", func(in *IntentInput) { in.Leases.Election.Template = fencing.TemplateRef{} },
			map[string]string{"Active": "Unknown NotRecorded"}},
		{"nothing was ever deployed", func(in *IntentInput) { in.Intent = fencing.EffectiveIntent{} }, map[string]string{
			"Readable": "True NoIntent", "Fenced": "Unknown NoIntent", "Checkpointed": "False NoIntent", "Recoverable": "False NotCheckpointed",
		}},
		{"claimed, but nothing deployed yet", func(in *IntentInput) { in.Intent.Intent.PlanID, in.Intent.Intent.Checksum = "", "" },
			map[string]string{"Readable": "True NoIntent", "Checkpointed": "False NoIntent", "Recoverable": "False NotCheckpointed"}},
		{"unreadable", func(in *IntentInput) { in.Intent = fencing.EffectiveIntent{Problem: errors.New("broken")} }, map[string]string{
			"Readable": "False IntentUnreadable", "Fenced": "Unknown NoIntent", "Checkpointed": "Unknown IntentUnreadable", "Recoverable": "Unknown IntentUnreadable",
		}},
		{"the Leases disagree", func(in *IntentInput) { in.Intent.Disagreement = "differs" }, map[string]string{"Readable": "True LeasesDisagree"}},
		{"the other Lease is unreadable", func(in *IntentInput) { in.Intent.Problem = errors.New("broken") },
			map[string]string{"Readable": "True OtherLeaseUnreadable"}},
		{"another leader took over", func(in *IntentInput) { in.Leases.Election.Epoch, in.Leases.Election.Holder = 8, "h2" },
			map[string]string{"Fenced": "False OtherLeader"}},
		{"nobody leads", func(in *IntentInput) { in.Leases.Election.Holder = "" }, map[string]string{"Fenced": "False NoLeader"}},
		{"the epoch is unreadable", func(in *IntentInput) { in.Leases.Election.EpochErr = errors.New("broken") },
			map[string]string{"Fenced": "Unknown EpochUnreadable"}},
		{"a record without a holder", func(in *IntentInput) { in.Intent.Intent.Holder = "" }, nil},
		{"standalone", func(in *IntentInput) { in.Template.Standalone, in.Leases.Election = true, fencing.ElectionLease{} },
			map[string]string{"Fenced": "True Standalone"}},
		{"the checkpoint is missing", func(in *IntentInput) { in.Checkpoints = nil },
			map[string]string{"Checkpointed": "False CheckpointMissing", "Recoverable": "False NotCheckpointed"}},
		{"the checkpoint is damaged", func(in *IntentInput) {
			damaged := soundInput()
			damaged.Verdict.State, damaged.Verdict.Reason = checkpoint.Damaged, checkpoint.ReasonChecksumMismatch
			in.Checkpoints = []*views.RetainedCheckpoint{Checkpoint(damaged)}
		}, map[string]string{"Recoverable": "False NotVerified"}},
		{"the checkpoint's plan cannot be read", func(in *IntentInput) { in.Checkpoints[0].Status.PlanID = "" },
			map[string]string{"Checkpointed": "Unknown PlanUnreadable", "Recoverable": "Unknown PlanUnreadable"}},
		{"no right to read Leases", func(in *IntentInput) { in.Leases, in.Intent = Leases{}, fencing.EffectiveIntent{} }, map[string]string{
			"Readable": "Unknown NotPermitted", "Fenced": "Unknown NotPermitted", "Checkpointed": "Unknown NotPermitted",
			"Recoverable": "Unknown NotPermitted", "Active": "Unknown NotPermitted",
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := soundIntentInput()
			tc.change(in)
			if diff := cmp.Diff(with(base, tc.want), conditionsOf(Intent(in).Status.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfEqualCheckpointsTheUsableOneIsNamed(t *testing.T) {
	in := soundIntentInput()
	for _, name := range []string{"a-unpromoted", "z-sound", "b-damaged"} {
		other := soundInput()
		other.Meta.Name = name
		other.Output.Pointers = []checkpoint.Pointer{{Name: name}}
		switch name {
		case "a-unpromoted":
			other.Output.Pointers = nil
		case "b-damaged":
			other.Verdict.State = checkpoint.Damaged
		}
		in.Checkpoints = append(in.Checkpoints, Checkpoint(other))
	}
	in.Checkpoints = in.Checkpoints[1:]
	if got := Intent(in).Status.Checkpoint; got != "z-sound" {
		t.Errorf("the intent names %s, want the recoverable one", got)
	}
}

func TestIntentShowsAFingerprintAndNoClaim(t *testing.T) {
	v := Intent(soundIntentInput())
	if got := v.Status.Intent.ClaimFingerprint; len(got) != 12 || strings.Contains(fmt.Sprintf("%+v", v), "CLAIM") {
		t.Errorf("fingerprint %q in %+v", got, v.Status)
	}
	if v.Status.Source.Name != "web-retained-state" || v.Status.Source.Role != RoleRetained {
		t.Errorf("source = %+v", v.Status.Source)
	}
	in := soundIntentInput()
	in.Intent.Source = fencing.SourceElection
	if got := Intent(in).Status.Source; got.Name != "web-leader" || got.Role != RoleElection {
		t.Errorf("source = %+v", got)
	}
}

func TestMessageIsCutToWhatTheAPIAllows(t *testing.T) {
	in := soundInput()
	in.Verdict.State, in.Verdict.Message = checkpoint.Damaged, strings.Repeat("x", 2*maxMessage)
	for _, c := range Checkpoint(in).Status.Conditions {
		if len(c.Message) > maxMessage {
			t.Errorf("%s has a message of %d bytes", c.Type, len(c.Message))
		}
	}
}

func TestSelectableFields(t *testing.T) {
	got := CheckpointFields(Checkpoint(soundInput()))
	want := map[string]string{"status.template.name": "web", "status.checksum": checksum, "status.verified": "True", "status.recoverable": "True"}
	if diff := cmp.Diff(want, map[string]string(got)); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	in := soundIntentInput()
	in.Intent = fencing.EffectiveIntent{}
	want = map[string]string{"status.template.name": "web", "status.checksum": "", "status.recoverable": "False"}
	if diff := cmp.Diff(want, map[string]string(IntentFields(Intent(in)))); diff != "" {
		t.Errorf("intent (-want +got):\n%s", diff)
	}
}
