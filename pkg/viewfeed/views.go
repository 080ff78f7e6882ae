package viewfeed

import (
	"time"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/view"
	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

type (
	// CheckpointCache holds the RetainedCheckpoints.
	CheckpointCache = viewcache.Cache[views.RetainedCheckpoint, *views.RetainedCheckpoint]
	// IntentCache holds the DeploymentIntents.
	IntentCache = viewcache.Cache[views.DeploymentIntent, *views.DeploymentIntent]
)

// Views are the caches that a feed fills. They share one counter of versions.
type Views struct {
	Checkpoints *CheckpointCache
	Intents     *IntentCache
}

// NewViews returns empty caches whose versions are above those of every
// process that started before start.
func NewViews(start time.Time, metrics *Metrics) *Views {
	versions := viewcache.NewVersions(start)
	return &Views{
		Checkpoints: viewcache.New[views.RetainedCheckpoint](viewcache.Options[views.RetainedCheckpoint]{
			Versions: versions, Fields: view.CheckpointFields, OnSlowWatcher: metrics.SlowWatchers.Inc,
		}),
		Intents: viewcache.New[views.DeploymentIntent](viewcache.Options[views.DeploymentIntent]{
			Versions: versions, Fields: view.IntentFields, OnSlowWatcher: metrics.SlowWatchers.Inc,
		}),
	}
}

// forget drops the steps of the first round, which nobody saw.
func (v *Views) forget() {
	v.Checkpoints.Forget()
	v.Intents.Forget()
}

// Restart goes on with another counter of versions. Watches end as expired.
func (v *Views) Restart(versions *viewcache.Versions) {
	v.Checkpoints.Restart(versions)
	v.Intents.Restart(versions)
}

// Close ends every watch and waits for it.
func (v *Views) Close() {
	v.Checkpoints.Close()
	v.Intents.Close()
}
