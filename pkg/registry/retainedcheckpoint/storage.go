// Package retainedcheckpoint is what the resource retainedcheckpoints adds to
// the generic storage: its names, its columns and the subresource config.
package retainedcheckpoint

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/registry"
	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

// Storage serves RetainedCheckpoints.
type Storage = registry.Storage[views.RetainedCheckpoint, *views.RetainedCheckpoint]

// NewStorage returns the storage of retainedcheckpoints.
func NewStorage(cache *viewcache.Cache[views.RetainedCheckpoint, *views.RetainedCheckpoint], ready func() error) *Storage {
	return registry.NewStorage(registry.Kind[views.RetainedCheckpoint, *views.RetainedCheckpoint]{
		Resource: views.Resource("retainedcheckpoints"),
		Singular: "retainedcheckpoint",
		Short:    []string{"rckpt"},
		NewList: func(items []views.RetainedCheckpoint, version string) runtime.Object {
			return &views.RetainedCheckpointList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}
		},
		Columns: columns(),
	}, cache, ready)
}

func columns() []registry.Column[*views.RetainedCheckpoint] {
	type view = *views.RetainedCheckpoint
	condition := func(conditionType string) func(view) any {
		return func(v view) any { return registry.ConditionCell(v.Status.Conditions, conditionType) }
	}
	return []registry.Column[view]{
		registry.NameColumn[view](),
		registry.Narrow("Template", "Template the checkpoint belongs to.", func(v view) any { return v.Status.Template.Name }),
		registry.Narrow("Checksum", "Content checksum over configuration and files.", func(v view) any { return v.Status.Checksum }),
		registry.Narrow("Position", "Place in the template's pointer list.", func(v view) any { return string(v.Status.Position) }),
		registry.Narrow("Verified", "Whether every stored byte is what its names and checksums say.", condition(views.ConditionVerified)),
		registry.Narrow("Recoverable", "Whether recovery would select the checkpoint.", condition(views.ConditionRecoverable)),
		registry.AgeColumn[view](),
		registry.Wide("Plan", "Plan the output declares.", func(v view) any { return v.Status.PlanID }),
		registry.Wide("Evidence", "SHA-256 over everything that belongs to the output.", func(v view) any { return v.Status.Evidence }),
		registry.Wide("Artifacts", "Files that verify, of all files.", artifactsCell),
		registry.Wide("Reason", "Why the checkpoint verifies or not.", func(v view) any {
			return registry.ReasonCell(v.Status.Conditions, views.ConditionVerified)
		}),
		registry.Wide("Blocked", "Why recovery would not select the checkpoint.", func(v view) any {
			return registry.ReasonCell(v.Status.Conditions, views.ConditionRecoverable)
		}),
	}
}

func artifactsCell(v *views.RetainedCheckpoint) any {
	sound := 0
	for i := range v.Status.Artifacts {
		if v.Status.Artifacts[i].Verdict == string(checkpoint.Verified) {
			sound++
		}
	}
	return fmt.Sprintf("%d/%d", sound, len(v.Status.Artifacts))
}
