package view

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// IntentInput is everything a DeploymentIntent is computed from.
type IntentInput struct {
	Template *Template
	Leases   Leases
	Intent   fencing.EffectiveIntent
	// Checkpoints are the views of the template's checkpoints.
	Checkpoints []*views.RetainedCheckpoint
}

// Roles of a Lease that an intent can come from.
const (
	RoleElection = "LeaderElection"
	RoleRetained = "RetainedState"
)

// claimFingerprintBytes is how much of a claim's SHA-256 is shown: enough to
// tell claims apart, too little to write with.
const claimFingerprintBytes = 6

var intentSpace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("deploymentintents."+views.GroupName))

// Intent computes the view of a template's intent.
func Intent(in *IntentInput) *views.DeploymentIntent {
	v := &views.DeploymentIntent{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         in.Template.Namespace,
			Name:              in.Template.Name,
			UID:               derivedUID(intentSpace, in.Template.UID),
			CreationTimestamp: metav1.NewTime(in.Template.Created),
			Labels:            in.Template.Labels,
		},
		Status: views.DeploymentIntentStatus{
			Template: views.TemplateReference{Name: in.Template.Name, UID: types.UID(in.Template.UID)},
		},
	}
	in.describe(&v.Status)
	named := in.named()
	if named != nil {
		v.Status.Checkpoint = named.Name
	}
	v.Status.Conditions = []metav1.Condition{
		in.readable().condition(views.ConditionReadable),
		in.fenced().condition(views.ConditionFenced),
		in.checkpointed(named).condition(views.ConditionCheckpointed),
		in.recoverable(named).condition(views.ConditionRecoverable),
		in.active().condition(views.ConditionActive),
	}
	return v
}

func (in *IntentInput) describe(status *views.DeploymentIntentStatus) {
	if in.Intent.Source == fencing.SourceNone {
		return
	}
	intent := &in.Intent.Intent
	status.Source = &views.LeaseReference{Name: in.Leases.RetainedName, Role: RoleRetained}
	if in.Intent.Source == fencing.SourceElection {
		status.Source = &views.LeaseReference{Name: in.Leases.ElectionName, Role: RoleElection}
	}
	if intent.HasPlan() {
		status.Intent = &views.Intent{
			PlanID: intent.PlanID, Checksum: intent.Checksum, Holder: intent.Holder, Epoch: intent.Epoch,
		}
		if intent.Claim != "" {
			sum := sha256.Sum256([]byte(intent.Claim))
			status.Intent.ClaimFingerprint = hex.EncodeToString(sum[:claimFingerprintBytes])
		}
	}
	if intent.Active != nil {
		status.Active = &views.ActiveRecovery{
			Checksum: intent.Active.Checksum, Since: metav1.NewTime(intent.Active.Since.UTC().Truncate(time.Second)),
		}
	}
}

// named returns the checkpoint that the intent names. Of several with equal
// content (two compressors give two names) the recoverable one counts, then the
// promoted one, since that is what recovery would choose from.
func (in *IntentInput) named() *views.RetainedCheckpoint {
	var best *views.RetainedCheckpoint
	for _, v := range in.Checkpoints {
		if !in.Intent.Intent.Names(v.Status.PlanID, v.Status.Checksum) {
			continue
		}
		if best == nil || rank(v) > rank(best) || rank(v) == rank(best) && v.Name < best.Name {
			best = v
		}
	}
	return best
}

func rank(v *views.RetainedCheckpoint) int {
	switch {
	case statusOf(v.Status.Conditions, views.ConditionRecoverable) == string(metav1.ConditionTrue):
		return 2
	case v.Status.Position != views.PositionUnpromoted:
		return 1
	}
	return 0
}

// since is when the facts of both Leases were last written, as far as stored.
// Renewals are no facts.
func (l *Leases) since() time.Time { return latest(l.Acquired, l.Recorded) }

func (in *IntentInput) since() time.Time { return latest(in.Template.Created, in.Leases.since()) }

func (in *IntentInput) readable() finding {
	effective := &in.Intent
	switch {
	case !in.Leases.Readable:
		return isUnknown(ReasonNotPermitted, "there is no right to read Leases", in.Template.Created)
	case effective.Source == fencing.SourceNone && effective.Problem != nil:
		return isFalse(ReasonIntentUnreadable, effective.Problem.Error(), in.since())
	case effective.Disagreement != "":
		return isTrue(ReasonLeasesDisagree, effective.Disagreement, in.since())
	case effective.Problem != nil:
		return isTrue(ReasonOtherUnreadable, effective.Problem.Error(), in.since())
	case !effective.Intent.HasPlan():
		return isTrue(ReasonNoIntent, "no output was ever recorded as intent", in.since())
	}
	return isTrue(ReasonIntentRead, "the record parses and belongs to the template", in.since())
}

func (in *IntentInput) fenced() finding {
	l, intent := &in.Leases.Election, &in.Intent.Intent
	switch {
	case !in.Leases.Readable:
		return isUnknown(ReasonNotPermitted, "there is no right to read Leases", in.Template.Created)
	case in.Intent.Source == fencing.SourceNone:
		return isUnknown(ReasonNoIntent, "there is no readable record", in.since())
	case in.Template.Standalone:
		return isTrue(ReasonStandalone, "leader election is off, so only the record's own claim fences", in.since())
	case !l.Exists || l.Holder == "":
		return isFalse(ReasonNoLeader, fmt.Sprintf("nobody holds the leader-election Lease %s", in.Leases.ElectionName), in.since())
	case l.EpochErr != nil:
		return isUnknown(ReasonEpochUnknown, l.EpochErr.Error(), in.since())
	case l.Epoch != intent.Epoch, intent.Holder != "" && intent.Holder != l.Holder:
		return isFalse(ReasonOtherLeader, fmt.Sprintf("%s leads in epoch %d, the record is of epoch %d by %s",
			l.Holder, l.Epoch, intent.Epoch, cmp.Or(intent.Holder, "an unnamed holder")), in.since())
	}
	return isTrue(ReasonLeaderRecorded, fmt.Sprintf("%s leads in epoch %d and wrote the record", l.Holder, l.Epoch), in.since())
}

func (in *IntentInput) checkpointed(named *views.RetainedCheckpoint) finding {
	switch {
	case !in.Leases.Readable:
		return isUnknown(ReasonNotPermitted, "there is no right to read Leases", in.Template.Created)
	case in.Intent.Source == fencing.SourceNone && in.Intent.Problem != nil:
		return isUnknown(ReasonIntentUnreadable, in.Intent.Problem.Error(), in.since())
	case !in.Intent.Intent.HasPlan():
		return isFalse(ReasonNoIntent, "no output was ever recorded as intent", in.since())
	case named != nil:
		verified := meta.FindStatusCondition(named.Status.Conditions, views.ConditionVerified)
		return isTrue(ReasonStored, fmt.Sprintf("checkpoint %s holds the intended output", named.Name),
			latest(in.since(), verified.LastTransitionTime.Time))
	}
	for _, v := range in.Checkpoints {
		if v.Status.PlanID == "" && v.Status.Checksum == in.Intent.Intent.Checksum {
			return isUnknown(ReasonPlanUnreadable, fmt.Sprintf("checkpoint %s has the intended checksum, but its plan cannot be read", v.Name), in.since())
		}
	}
	return isFalse(ReasonNotStored, fmt.Sprintf("no checkpoint holds plan %s with checksum %s. This is normal for one publish interval after a deployment. "+
		"If it lasts, recovery refuses every older checkpoint until an output renders and deploys again",
		in.Intent.Intent.PlanID, in.Intent.Intent.Checksum), in.since())
}

func (in *IntentInput) recoverable(named *views.RetainedCheckpoint) finding {
	checkpointed := in.checkpointed(named)
	if named == nil {
		return all([]requirement{{checkpointed, ReasonNotCheckpointed, "there is nothing to recover from"}}, "", "")
	}
	condition := meta.FindStatusCondition(named.Status.Conditions, views.ConditionRecoverable)
	message := fmt.Sprintf("checkpoint %s: %s", named.Name, condition.Message)
	return finding{condition.Status, condition.Reason, message, latest(in.since(), condition.LastTransitionTime.Time)}
}

func (in *IntentInput) active() finding {
	active := in.Intent.Intent.Active
	switch {
	case !in.Leases.Readable:
		return isUnknown(ReasonNotPermitted, "there is no right to read Leases", in.Template.Created)
	case active != nil:
		return isTrue(ReasonRecovering, fmt.Sprintf("replacement pods are served from the checkpoint with checksum %s, because nothing can be rendered", active.Checksum), active.Since)
	case in.Leases.Election.Template.UID == in.Template.UID, in.Template.Standalone && in.Intent.Intent.Holder != "":
		return isFalse(ReasonNotActive, "the leader serves what it renders", in.since())
	}
	// A controller of another make stores nothing about recovery.
	return isUnknown(ReasonNotRecorded, "the controller does not record whether recovery is in force", in.since())
}

// IntentFields returns what DeploymentIntents can be selected by.
func IntentFields(v *views.DeploymentIntent) fields.Set {
	set := fields.Set{
		views.FieldTemplateName: v.Status.Template.Name,
		views.FieldChecksum:     "",
		views.FieldRecoverable:  statusOf(v.Status.Conditions, views.ConditionRecoverable),
	}
	if v.Status.Intent != nil {
		set[views.FieldChecksum] = v.Status.Intent.Checksum
	}
	return set
}

func statusOf(conditions []metav1.Condition, conditionType string) string {
	if condition := meta.FindStatusCondition(conditions, conditionType); condition != nil {
		return string(condition.Status)
	}
	return ""
}

// compare orders by pairs of texts: a before b, then c before d.
func compare(a, b, c, d string) int {
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(c, d))
}
