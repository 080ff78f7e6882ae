package election

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// Defaults of a template's leader election.
const (
	defaultLeaseDuration = 15 * time.Second
	defaultRenewDeadline = 10 * time.Second
	defaultRetryPeriod   = 2 * time.Second
)

// DrainLimit bounds a drain. The pod's grace period must be longer.
const DrainLimit = 15 * time.Second

// LeaseClient is what is needed of the Leases of one namespace.
type LeaseClient interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// TemplateClient finds out which templates of the namespace are living. It is
// asked only when a Lease names another one.
type TemplateClient interface {
	List(ctx context.Context, opts metav1.ListOptions) (*v1alpha1.HAProxyTemplateConfigList, error)
}

// Leader does the work of a term.
type Leader interface {
	// Announce tells the epoch to every discovered agent and returns the floors
	// above it that agents reported. It is called before Lead, and again if a
	// floor made the term raise its epoch.
	Announce(ctx context.Context, epoch uint64) (floors []uint64)
	// Lead does the work and returns only when all of it has ended. Its context
	// ends with the term. Nothing may survive it: the next term starts without
	// render, candidate, latch and receipt.
	Lead(ctx context.Context, term *Term)
	// Drain brings the work to rest on a graceful stop, while Lead still runs and
	// the Lease is still renewed.
	Drain(ctx context.Context, term *Term)
}

// Settings are what an election is held by.
type Settings struct {
	Namespace string
	Template  fencing.TemplateRef
	// LeaseName is that of the leader-election Lease.
	LeaseName string
	// Identity must be unique for each start of a process; see NewIdentity.
	Identity string

	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Standalone processes elect nobody and go by their claim alone.
	Standalone bool
}

// NewIdentity is a holder identity that no other process has, a restarted one
// of the same pod included: the elector would take that one for itself and not
// count a transition.
func NewIdentity(podName string) string {
	return podName + "_" + uuid.NewString()
}

// IsIdentity tells whether an identity is of the form that NewIdentity makes. A
// pod's name, by which other controllers stand for election, never is.
func IsIdentity(holder string) bool {
	cut := strings.LastIndexByte(holder, '_')
	return cut > 0 && uuid.Validate(holder[cut+1:]) == nil
}

// SettingsFor reads a template's settings, with defaults.
func SettingsFor(template *v1alpha1.HAProxyTemplateConfig, identity string) Settings {
	given := template.Spec.Controller.LeaderElection
	settings := Settings{
		Namespace:     template.Namespace,
		Template:      fencing.TemplateRef{Name: template.Name, UID: string(template.UID)},
		LeaseName:     given.LeaseName,
		Identity:      identity,
		LeaseDuration: orDefault(given.LeaseDuration, defaultLeaseDuration),
		RenewDeadline: orDefault(given.RenewDeadline, defaultRenewDeadline),
		RetryPeriod:   orDefault(given.RetryPeriod, defaultRetryPeriod),
		Standalone:    given.Enabled != nil && !*given.Enabled,
	}
	if settings.LeaseName == "" {
		settings.LeaseName = template.Name + "-leader"
	}
	return settings
}

func orDefault(given *metav1.Duration, usual time.Duration) time.Duration {
	if given == nil {
		return usual
	}
	return given.Duration
}

func (s Settings) retainedLeaseName() string {
	return checkpoint.RetainedStateLeaseName(s.Template.Name)
}

func (s Settings) validate() error {
	switch {
	case s.Template.UID == "" || s.Template.Name == "":
		return fmt.Errorf("election without a stored template")
	case s.Identity == "":
		return fmt.Errorf("election without an identity")
	case s.LeaseName == s.retainedLeaseName():
		return fmt.Errorf("leader-election lease has the name of the retained-state lease, %s", s.LeaseName)
	case s.RetryPeriod <= 0 || s.RenewDeadline <= s.RetryPeriod*6/5 || s.LeaseDuration <= s.RenewDeadline:
		// The factor is the elector's own jitter.
		return fmt.Errorf("leader election needs leaseDuration > renewDeadline > 1.2 * retryPeriod > 0, not %s, %s, %s",
			s.LeaseDuration, s.RenewDeadline, s.RetryPeriod)
	case s.LeaseDuration < time.Second:
		return fmt.Errorf("leaseDuration of %s is below the second that a Lease counts in", s.LeaseDuration)
	}
	return nil
}
