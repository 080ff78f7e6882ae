package selection

import (
	"fmt"
	"slices"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// Snapshot is everything stored for recovery, as one collection read it.
type Snapshot struct {
	// Before and After are the ordinary output, read ahead of all else and again
	// behind it.
	Before, After *v1alpha1.HAProxyCfg
	// Checkpoints are by the names of those pointers that were read; nil does
	// not exist.
	Checkpoints map[string]*v1alpha1.HAProxyCfg
	Children    []*checkpoint.StoredChild
}

// Choice is the checkpoint that the intent names.
type Choice struct {
	Name   string
	Output *checkpoint.Output
	// Damaged names other promoted checkpoints that would not verify. They do
	// not matter now, but will when they are needed.
	Damaged []string
}

// Choose verifies what is stored and picks the checkpoint the intent names.
func Choose(t checkpoint.Template, s Snapshot, intent fencing.Intent) (*Choice, *Refusal) {
	if f := Usable(t, s.Before); f != nil {
		f.Checksum = intent.Checksum
		return nil, f
	}
	if f := unchanged(s.Before, s.After); f != nil {
		f.Checksum = intent.Checksum
		return nil, f
	}
	pointers, _ := record.Ordinary(s.Before)
	var candidates []checkpoint.Candidate
	outputs := map[string]*checkpoint.Output{}
	var damaged []string
	for i := range pointers {
		pointer := &pointers[i]
		if _, read := s.Checkpoints[pointer.Name]; !read {
			continue
		}
		verdict, output := verify(t, s, pointer, pointer.Checksum == intent.Checksum)
		candidates = append(candidates, checkpoint.Candidate{Pointer: *pointer, Verdict: verdict})
		outputs[pointer.Name] = output
		if verdict.State == checkpoint.Damaged && pointer.Checksum != intent.Checksum {
			damaged = append(damaged, fmt.Sprintf("%s (%s)", pointer.Name, verdict.Reason))
		}
	}
	selection := checkpoint.Select(candidates, intent.PlanID, intent.Checksum)
	if selection.Reason != checkpoint.Selected {
		return nil, Unselected(selection, intent)
	}
	name := candidates[selection.Index].Pointer.Name
	return &Choice{Name: name, Output: outputs[name], Damaged: damaged}, nil
}

// verify restores the output of the intended checkpoint. Of another one it only
// tells whether it would verify, which copies nothing.
func verify(t checkpoint.Template, s Snapshot, pointer *checkpoint.Pointer, intended bool) (checkpoint.Verdict, *checkpoint.Output) {
	cfg := s.Checkpoints[pointer.Name]
	if cfg == nil {
		return checkpoint.Verdict{
			State: checkpoint.Damaged, Reason: checkpoint.ReasonPointerMismatch, Checksum: pointer.Checksum,
			Message: fmt.Sprintf("%s/%s: expected the object with UID %q, found none", v1alpha1.KindCfg, pointer.Name, pointer.UID),
		}, nil
	}
	bundle := checkpoint.Bundle{Template: t, Checkpoint: record.Checkpoint(cfg), Children: s.Children, Pointer: pointer}
	if !intended {
		return bundle.Judge(), nil
	}
	return bundle.Verify()
}

// Usable requires the object that holds the pointers to be the template's.
func Usable(t checkpoint.Template, ordinary *v1alpha1.HAProxyCfg) *Refusal {
	if ordinary == nil {
		return &Refusal{Reason: ReasonNoCheckpoint,
			Message: fmt.Sprintf("%s/%s: expected the object that names the checkpoints, found none",
				v1alpha1.KindCfg, checkpoint.OrdinaryName(t.Name)),
			Do: DoFixRendering}
	}
	object := v1alpha1.KindCfg + "/" + ordinary.Name
	if ordinary.DeletionTimestamp != nil {
		return &Refusal{Reason: ReasonPointerUntrusted, Message: object + ": expected to stay, found it being deleted", Do: DoFixRendering}
	}
	owner := record.Controller(&ordinary.ObjectMeta)
	want := checkpoint.Owner{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.KindTemplateConfig, Name: t.Name, UID: t.UID, Controller: true,
	}
	if owner != want || ordinary.Namespace != t.Namespace {
		return &Refusal{Reason: ReasonPointerUntrusted,
			Message: fmt.Sprintf("%s: controller owner: expected %s/%s with UID %q, found %s/%s with UID %q",
				object, want.Kind, want.Name, want.UID, owner.Kind, owner.Name, owner.UID),
			Do: DoFixRendering}
	}
	return nil
}

// unchanged refuses pointers that moved while what they name was read: the
// pieces then belong to no one moment.
func unchanged(before, after *v1alpha1.HAProxyCfg) *Refusal {
	object := v1alpha1.KindCfg + "/" + before.Name
	changed := func(what string) *Refusal {
		return &Refusal{Reason: ReasonSnapshotChanged, Message: object + ": " + what + " changed while the checkpoints were read",
			Do: "It is tried again by itself"}
	}
	switch {
	case after == nil:
		return changed("existence")
	case after.UID != before.UID:
		return changed("UID")
	case (after.DeletionTimestamp == nil) != (before.DeletionTimestamp == nil):
		return changed("deletion")
	case record.Controller(&after.ObjectMeta) != record.Controller(&before.ObjectMeta):
		return changed("owner")
	case !slices.Equal(after.Status.RetainedConfigs, before.Status.RetainedConfigs):
		return changed("status.retainedConfigs")
	}
	return nil
}

// DoFixRendering is what helps wherever nothing else does.
const DoFixRendering = "Fix rendering; the render error says where"

// Unselected translates why no checkpoint was picked.
func Unselected(s checkpoint.Selection, intent fencing.Intent) *Refusal {
	f := &Refusal{Checksum: intent.Checksum, Message: s.Message, Do: DoFixRendering}
	switch s.Reason {
	case checkpoint.NoIntent:
		f.Reason, f.Message = ReasonNoIntent, "retained-state lease: expected an intent with plan and checksum, found none"
	case checkpoint.NoCheckpoint:
		f.Reason, f.Message = ReasonNoCheckpoint, "status.retainedConfigs: expected a pointer to a checkpoint, found none"
	case checkpoint.IntentOutranCheckpoint:
		f.Reason = ReasonIntentOutranCheckpoint
		f.Do = "Fix rendering: there is no override, an older checkpoint never becomes eligible again"
	case checkpoint.IntendedDamaged:
		f.Reason = ReasonCheckpointDamaged
		f.Do = "Restore the named object from a backup, or fix rendering"
	case checkpoint.IntendedUnknown:
		f.Reason = ReasonCheckpointUnknown
	case checkpoint.IntendedUnacknowledged:
		f.Reason = ReasonCheckpointUnacknowledged
	default:
		panic("a selection has a reason outside of its closed list: " + string(s.Reason))
	}
	return f
}
