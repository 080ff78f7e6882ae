package active

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
)

// A standby notices a sudden death at most one jittered retry after the last
// renewal, waits for the Lease to run out and tries again within another one:
// 3 s + 2 x 2.2 x 0.4 s. What remains of six seconds is the aggregator's.
const (
	defaultLeaseDuration = 3 * time.Second
	defaultRenewDeadline = 2 * time.Second
	defaultRetryPeriod   = 400 * time.Millisecond
	// defaultHandOverLimit bounds what a graceful stop waits for a successor. It
	// must fit into the pod's grace period, beside what the server needs.
	defaultHandOverLimit = 10 * time.Second
)

// Settings say by which objects replicas find out who is active.
type Settings struct {
	// Lease that the active replica holds. Empty means that there is one replica,
	// which is always active, and nothing is read or written.
	Lease string
	// EndpointSlice that the active replica writes its address into.
	EndpointSlice string
	// Namespace of both.
	Namespace string
	// Address of this replica as clients reach it.
	Address string

	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// HandOverLimit bounds what a graceful stop waits for a successor.
	HandOverLimit time.Duration
}

// NewSettings returns the defaults, of one replica.
func NewSettings() Settings {
	return Settings{
		LeaseDuration: defaultLeaseDuration,
		RenewDeadline: defaultRenewDeadline,
		RetryPeriod:   defaultRetryPeriod,
		HandOverLimit: defaultHandOverLimit,
	}
}

// Enabled tells whether there may be other replicas.
func (s *Settings) Enabled() bool { return s.Lease != "" }

// AddFlags adds a flag for every setting.
func (s *Settings) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.Lease, "active-lease", s.Lease,
		"Lease that the active one of several replicas holds. Empty means that there is one replica, and then nothing is written to the cluster.")
	fs.StringVar(&s.EndpointSlice, "active-endpoint-slice", s.EndpointSlice,
		"EndpointSlice that the active replica writes its address into. It and the Lease must exist.")
	fs.StringVar(&s.Namespace, "active-namespace", s.Namespace, "Namespace of the Lease and of the EndpointSlice.")
	fs.StringVar(&s.Address, "active-address", s.Address,
		"Address of this replica as clients reach it. Empty means that of --bind-address.")
	fs.DurationVar(&s.LeaseDuration, "active-lease-duration", s.LeaseDuration,
		"How long standbys wait after the last renewal they saw before they take the Lease.")
	fs.DurationVar(&s.RenewDeadline, "active-renew-deadline", s.RenewDeadline,
		"How long the active replica tries to renew before it gives up.")
	fs.DurationVar(&s.RetryPeriod, "active-retry-period", s.RetryPeriod, "How often the Lease is renewed, or tried for.")
	fs.DurationVar(&s.HandOverLimit, "active-hand-over-limit", s.HandOverLimit,
		"How long a terminated active replica serves on while no other one has taken over.")
}

// Validate returns every mistake at once.
func (s *Settings) Validate() []error {
	if !s.Enabled() {
		if s.EndpointSlice != "" {
			return []error{fmt.Errorf("--active-endpoint-slice needs --active-lease")}
		}
		return nil
	}
	var errs []error
	for _, named := range []struct {
		flag, value string
		check       func(string) []string
	}{
		{"--active-lease", s.Lease, validation.IsDNS1123Subdomain},
		{"--active-endpoint-slice", s.EndpointSlice, validation.IsDNS1123Subdomain},
		{"--active-namespace", s.Namespace, validation.IsDNS1123Label},
	} {
		for _, problem := range named.check(named.value) {
			errs = append(errs, fmt.Errorf("%s: %q: %s", named.flag, named.value, problem))
		}
	}
	// An EndpointSlice refuses these too, but only when it is too late.
	if address, err := netip.ParseAddr(s.Address); err != nil || address.IsUnspecified() || address.IsLoopback() {
		errs = append(errs, fmt.Errorf("--active-address: %q is no address that clients could reach", s.Address))
	}
	if s.LeaseDuration < time.Second || s.LeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--active-lease-duration: %s is not a number of whole seconds", s.LeaseDuration))
	}
	if s.RenewDeadline >= s.LeaseDuration {
		errs = append(errs, fmt.Errorf("--active-renew-deadline: %s is not below --active-lease-duration, %s", s.RenewDeadline, s.LeaseDuration))
	}
	if s.RetryPeriod <= 0 || float64(s.RenewDeadline) <= leaderelection.JitterFactor*float64(s.RetryPeriod) {
		errs = append(errs, fmt.Errorf("--active-retry-period: %s leaves no second try within --active-renew-deadline, %s", s.RetryPeriod, s.RenewDeadline))
	}
	if s.HandOverLimit <= 0 {
		errs = append(errs, fmt.Errorf("--active-hand-over-limit: %s is not positive", s.HandOverLimit))
	}
	return errs
}
