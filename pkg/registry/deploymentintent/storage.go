// Package deploymentintent is what the resource deploymentintents adds to the
// generic storage: its names and columns.
package deploymentintent

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/registry"
	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

// Storage serves DeploymentIntents.
type Storage = registry.Storage[views.DeploymentIntent, *views.DeploymentIntent]

// NewStorage returns the storage of deploymentintents.
func NewStorage(cache *viewcache.Cache[views.DeploymentIntent, *views.DeploymentIntent], ready func() error) *Storage {
	return registry.NewStorage(registry.Kind[views.DeploymentIntent, *views.DeploymentIntent]{
		Resource: views.Resource("deploymentintents"),
		Singular: "deploymentintent",
		Short:    []string{"dintent"},
		NewList: func(items []views.DeploymentIntent, version string) runtime.Object {
			return &views.DeploymentIntentList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}
		},
		Columns: columns(),
	}, cache, ready)
}

func columns() []registry.Column[*views.DeploymentIntent] {
	type intent = *views.DeploymentIntent
	type column = registry.Column[intent]
	condition := func(conditionType string) func(intent) any {
		return func(v intent) any { return registry.ConditionCell(v.Status.Conditions, conditionType) }
	}
	ofIntent := func(cell func(*views.Intent) any) func(intent) any {
		return func(v intent) any {
			if v.Status.Intent == nil {
				return ""
			}
			return cell(v.Status.Intent)
		}
	}
	return []column{
		registry.NameColumn[intent](),
		registry.Narrow("Plan", "Plan the fleet was last told to run.", ofIntent(func(i *views.Intent) any { return i.PlanID })),
		registry.Narrow("Checksum", "Content checksum of that output.", ofIntent(func(i *views.Intent) any { return i.Checksum })),
		epochColumn(ofIntent(func(i *views.Intent) any { return int64(i.Epoch) })),
		registry.Narrow("Checkpointed", "Whether a stored checkpoint holds that output.", condition(views.ConditionCheckpointed)),
		registry.Narrow("Recoverable", "Whether replacement pods could be served from that checkpoint.", condition(views.ConditionRecoverable)),
		registry.Narrow("Active", "Whether replacement pods are being served from it now.", condition(views.ConditionActive)),
		registry.AgeColumn[intent](),
		registry.Wide("Holder", "Controller that recorded the intent.", ofIntent(func(i *views.Intent) any { return i.Holder })),
		registry.Wide("Checkpoint", "Stored checkpoint that the intent names.", func(v intent) any { return v.Status.Checkpoint }),
		registry.Wide("Reason", "Why recovery is possible or not.", func(v intent) any {
			return registry.ReasonCell(v.Status.Conditions, views.ConditionRecoverable)
		}),
	}
}

func epochColumn(cell func(*views.DeploymentIntent) any) registry.Column[*views.DeploymentIntent] {
	return registry.Narrow("Epoch", "Term that recorded the intent.", cell)
}
