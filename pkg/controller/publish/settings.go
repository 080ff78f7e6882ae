package publish

import (
	"context"
	"time"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// Defaults of a template's publication settings.
const (
	defaultInterval  = 10 * time.Second
	defaultThreshold = 1 << 20
)

// verifyInterval is how often something published and unchanged is looked at
// again, so that what was changed or deleted behind our back is repaired.
const verifyInterval = time.Minute

// Fence is the term by which everything is published.
type Fence interface {
	// Check requires that the term holds both Leases.
	Check(ctx context.Context) error
	// Intent is the recorded intent, after a Check.
	Intent(ctx context.Context) (fencing.Intent, error)
}

// Settings are what a template says about publication.
type Settings struct {
	Template checkpoint.Template
	// CompressionThreshold in bytes: longer content is stored compressed. 0 never
	// compresses.
	CompressionThreshold int64
	// Interval is the shortest time between two publications.
	Interval time.Duration
}

// SettingsFor reads a template's settings, with defaults.
func SettingsFor(template *v1alpha1.HAProxyTemplateConfig) Settings {
	s := Settings{
		Template: checkpoint.Template{
			Namespace: template.Namespace, Name: template.Name, UID: string(template.UID),
		},
		CompressionThreshold: defaultThreshold,
		Interval:             defaultInterval,
	}
	if given := template.Spec.Controller.ConfigPublishing.CompressionThreshold; given != nil {
		s.CompressionThreshold = *given
	}
	if given := template.Spec.Dataplane.ConfigPublishInterval; given != nil {
		s.Interval = given.Duration
	}
	return s
}
