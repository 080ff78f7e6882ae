package view

import (
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// CheckpointInput is everything a RetainedCheckpoint is computed from.
type CheckpointInput struct {
	// Meta identifies the stored checkpoint, and Labels are its labels.
	Meta   checkpoint.Meta
	Labels map[string]string
	// TemplateName and TemplateUID are what the checkpoint says of its template.
	TemplateName, TemplateUID string
	// Modified is when the checkpoint or one of its files was last written.
	Modified time.Time
	Verdict  checkpoint.Verdict
	// Template is nil if it does not exist.
	Template *Template
	// Output is nil if the template has no ordinary output.
	Output *Output
	Leases Leases
	// Intent is the effective intent of the template.
	Intent fencing.EffectiveIntent
}

var checkpointSpace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("retainedcheckpoints."+views.GroupName))

// Checkpoint computes the view of one stored checkpoint.
func Checkpoint(in *CheckpointInput) *views.RetainedCheckpoint {
	v := &views.RetainedCheckpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         in.Meta.Namespace,
			Name:              in.Meta.Name,
			UID:               derivedUID(checkpointSpace, in.Meta.UID),
			CreationTimestamp: metav1.NewTime(in.Meta.Created),
			Labels:            in.Labels,
		},
		Status: views.RetainedCheckpointStatus{
			Template:  views.TemplateReference{Name: in.TemplateName, UID: types.UID(in.TemplateUID)},
			Checksum:  in.Verdict.Checksum,
			PlanID:    in.Verdict.PlanID,
			Evidence:  in.Verdict.Evidence,
			Position:  in.position(),
			Artifacts: artifacts(in.Verdict.Artifacts),
			Pods:      in.pods(),
		},
	}
	if sum := in.Verdict.Configuration; sum != nil {
		v.Status.Configuration = &views.ConfigurationSummary{
			Path: in.Verdict.ConfigurationPath, Size: sum.Size, SHA256: unique.Make(sum.FileChecksum()).Value(),
		}
	}
	if receipt := in.Verdict.Receipt; receipt != nil {
		v.Status.Receipt = &views.Receipt{
			Pod: receipt.PodName, PodUID: receipt.PodUID, RuntimeID: receipt.PodRuntimeID, Mode: receipt.Mode,
		}
	}
	verified, promoted, acknowledged, intended := in.verified(), in.promoted(), in.acknowledged(), in.intended()
	recoverable := all([]requirement{
		{in.living(), ReasonTemplateMissing, "recovery would not look at it"},
		{in.staying(), ReasonTerminating, "recovery would refuse it"},
		{promoted, ReasonNotPromoted, "not promoted"},
		{verified, ReasonNotVerified, "not verified"},
		{acknowledged, ReasonNotAcknowledged, "not acknowledged"},
		{intended, ReasonNotIntended, "not intended"},
	}, ReasonRecoverable, "promoted, verified, acknowledged and named by the effective intent")
	v.Status.Conditions = []metav1.Condition{
		verified.condition(views.ConditionVerified),
		promoted.condition(views.ConditionPromoted),
		acknowledged.condition(views.ConditionAcknowledged),
		intended.condition(views.ConditionIntended),
		recoverable.condition(views.ConditionRecoverable),
	}
	return v
}

func derivedUID(space uuid.UUID, stored string) types.UID {
	return types.UID(uuid.NewSHA1(space, []byte(stored)).String())
}

func (in *CheckpointInput) position() views.Position {
	index := -1
	if in.Output != nil {
		index = slices.IndexFunc(in.Output.Pointers, func(p checkpoint.Pointer) bool { return p.Name == in.Meta.Name })
	}
	switch index {
	case -1:
		return views.PositionUnpromoted
	case 0:
		return views.PositionNewest
	case 1:
		return views.PositionPredecessor
	}
	return views.PositionRetained
}

// pods lists who reports the checksum on the ordinary output, sorted, so that
// the order in which pods wrote changes no view.
func (in *CheckpointInput) pods() []views.PodReport {
	if in.Output == nil {
		return nil
	}
	var pods []views.PodReport
	for i := range in.Output.Pods {
		entry := &in.Output.Pods[i]
		if entry.Checksum == in.Verdict.Checksum {
			pods = append(pods, views.PodReport{Name: entry.PodName, UID: entry.PodUID, RunningPlanID: entry.RunningPlanID})
		}
	}
	slices.SortFunc(pods, func(a, b views.PodReport) int { return compare(a.Name, b.Name, a.UID, b.UID) })
	return pods
}

func artifacts(verdicts []checkpoint.ArtifactVerdict) []views.ArtifactStatus {
	if len(verdicts) == 0 {
		return nil
	}
	statuses := make([]views.ArtifactStatus, 0, len(verdicts))
	for i := range verdicts {
		verdict := &verdicts[i]
		status := views.ArtifactStatus{
			Family: verdict.Family.String(), Name: verdict.Name, Path: verdict.Path,
			Size: verdict.Size, Checksum: verdict.Checksum, Shared: verdict.Shared,
			Verdict: string(verdict.State), Reason: string(verdict.Reason), Message: verdict.Message,
		}
		if verdict.Object != "" {
			status.Object = &views.ObjectReference{Kind: verdict.Kind, Name: verdict.Object, UID: types.UID(verdict.UID)}
		}
		statuses = append(statuses, status)
	}
	return statuses
}

func (in *CheckpointInput) verified() finding {
	verdict := &in.Verdict
	switch verdict.State {
	case checkpoint.Verified:
		message := fmt.Sprintf("configuration, plan and %d files are what their names and checksums say", len(verdict.Artifacts))
		return isTrue(string(verdict.Reason), message, in.Modified)
	case checkpoint.Damaged:
		return isFalse(string(verdict.Reason), summary(verdict), in.Modified)
	}
	return isUnknown(string(verdict.Reason), summary(verdict), in.Modified)
}

// summary is the first finding of the worst state, with the path of the file it
// is about, and how many more there are.
func summary(verdict *checkpoint.Verdict) string {
	message := verdict.Message
	for i := range verdict.Artifacts {
		artifact := &verdict.Artifacts[i]
		if artifact.Path != "" && artifact.State == verdict.State && artifact.Message == message {
			message = fmt.Sprintf("file %s: %s", artifact.Path, message)
			break
		}
	}
	more := -1
	for _, f := range verdict.Findings {
		if f.State == verdict.State {
			more++
		}
	}
	switch {
	case more == 1:
		message += " (and one more finding)"
	case more > 1:
		message += fmt.Sprintf(" (and %d more findings)", more)
	}
	return message
}

func (in *CheckpointInput) promoted() finding {
	switch {
	case in.Output == nil:
		return isFalse(ReasonOutputMissing, fmt.Sprintf("template %s has no ordinary output that could point at it", in.TemplateName), in.Modified)
	case in.position() == views.PositionUnpromoted:
		return isFalse(ReasonUnpromoted, "no pointer names it: its publication is in progress or was interrupted, or it awaits collection", in.Modified)
	}
	return isTrue(ReasonPromoted, fmt.Sprintf("the ordinary output points at it, as %s", in.position()), in.Modified)
}

func (in *CheckpointInput) acknowledged() finding {
	switch {
	case in.Verdict.Acknowledged:
		return isTrue(ReasonReceiptStored, fmt.Sprintf("pod %s ran the output", in.Verdict.Receipt.PodName), in.Modified)
	case in.Verdict.PlanID == "":
		return isUnknown(ReasonPlanUnreadable, "without a readable plan no receipt can be compared", in.Modified)
	}
	return isFalse(ReasonReceiptMissing, "no stored receipt proves that a worker ran the output", in.Modified)
}

func (in *CheckpointInput) intended() finding {
	intent := &in.Intent.Intent
	switch {
	case !in.Leases.Readable:
		return isUnknown(ReasonNotPermitted, "there is no right to read Leases", in.Modified)
	case in.Intent.Source == fencing.SourceNone && in.Intent.Problem != nil:
		return isUnknown(ReasonIntentUnreadable, in.Intent.Problem.Error(), in.Modified)
	case !intent.HasPlan():
		return isFalse(ReasonNoIntent, "no output was recorded as intent for the template", in.Modified)
	case in.Verdict.PlanID == "" && intent.Checksum == in.Verdict.Checksum:
		return isUnknown(ReasonPlanUnreadable, "the intent names its checksum, but its plan cannot be read", in.Modified)
	case !intent.Names(in.Verdict.PlanID, in.Verdict.Checksum):
		return isFalse(ReasonIntentNamesOther, fmt.Sprintf("the fleet was last told to run plan %s with checksum %s", intent.PlanID, intent.Checksum), in.Modified)
	}
	return isTrue(ReasonIntended, "the fleet was last told to run it", latest(in.Modified, in.Leases.since()))
}

// living requires the template, whose UID everything stored must be owned by.
func (in *CheckpointInput) living() finding {
	if in.Template == nil {
		return isFalse(ReasonTemplateMissing, fmt.Sprintf("template %s does not exist", in.TemplateName), in.Modified)
	}
	return isTrue("", "", in.Modified)
}

func (in *CheckpointInput) staying() finding {
	if in.Meta.Terminating {
		return isFalse(ReasonTerminating, "it is being deleted", in.Modified)
	}
	return isTrue("", "", in.Modified)
}

// CheckpointFields returns what RetainedCheckpoints can be selected by.
func CheckpointFields(v *views.RetainedCheckpoint) fields.Set {
	return fields.Set{
		views.FieldTemplateName: v.Status.Template.Name,
		views.FieldChecksum:     v.Status.Checksum,
		views.FieldVerified:     statusOf(v.Status.Conditions, views.ConditionVerified),
		views.FieldRecoverable:  statusOf(v.Status.Conditions, views.ConditionRecoverable),
	}
}
