package active

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestNextStamp(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	tests := []struct {
		name string
		now  time.Time
		used []time.Time
		want int64
	}{
		{"the clock, where nothing is recorded", at(1000), []time.Time{{}}, 1000},
		{"the clock, where it is ahead", at(1000), []time.Time{at(999)}, 1000},
		{"above the recorded one in the same millisecond", at(1000).Add(999 * time.Microsecond), []time.Time{at(1000)}, 1001},
		{"above the recorded one, where the clock went back", at(1000), []time.Time{at(5000)}, 5001},
		{"above our own, where the record was lost", at(1000), []time.Time{{}, at(7000)}, 7001},
		{"above both", at(1000), []time.Time{at(8000), at(7000)}, 8001},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := nextStamp(tc.now, tc.used...).UnixMilli(); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestStampOf(t *testing.T) {
	for text, want := range map[string]int64{
		"1767225600000": 1767225600000, "": -1, "0": -1, "-5": -1, "1.5": -1, "soon": -1,
		"9223372036854775807": -1, "16725225600001": -1, "99999999999999999999": -1,
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{StampAnnotation: text}}}
		stamp, ok := stampOf(lease)
		if ok != (want >= 0) || ok && stamp.UnixMilli() != want {
			t.Errorf("%q: got %s, %t", text, stamp, ok)
		}
	}
}

func TestLeadingTo(t *testing.T) {
	slice := func(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints}
	}
	to := func(address string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	tests := []struct {
		name    string
		slice   *discoveryv1.EndpointSlice
		address string
		writes  bool
		refused bool
	}{
		{"an empty one is written", slice(), first, true, false},
		{"another's is written", slice(to(second, nil)), first, true, false},
		{"ours is left", slice(to(first, nil)), first, false, false},
		{"ours that is ready is left", slice(to(first, ptr.To(true))), first, false, false},
		{"ours that is not ready is written", slice(to(first, ptr.To(false))), first, true, false},
		{"ours beside another's is written", slice(to(first, nil), to(second, nil)), first, true, false},
		{"one of the other family is refused", slice(), "fd00::1", false, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.slice.DeepCopy()
			changed, err := leadingTo(tc.slice, tc.address)
			if (err != nil) != tc.refused || (changed != nil) != tc.writes {
				t.Fatalf("got %v, error %v", changed, err)
			}
			if diff := cmp.Diff(before, tc.slice); diff != "" {
				t.Errorf("what was read was changed (-before +after):\n%s", diff)
			}
			if changed != nil && (len(changed.Endpoints) != 1 || !leadsTo(changed, tc.address)) {
				t.Errorf("got %v", changed.Endpoints)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	sound := NewSettings()
	sound.Lease, sound.EndpointSlice, sound.Namespace, sound.Address = "lease", "slice", "system", first
	tests := []struct {
		name   string
		change func(s *Settings)
		want   string
	}{
		{"the sound ones", func(*Settings) {}, ""},
		{"one replica needs nothing", func(s *Settings) { *s = NewSettings() }, ""},
		{"a slice without a Lease", func(s *Settings) { s.Lease = "" }, "--active-endpoint-slice"},
		{"a Lease without a slice", func(s *Settings) { s.EndpointSlice = "" }, "--active-endpoint-slice"},
		{"no namespace", func(s *Settings) { s.Namespace = "" }, "--active-namespace"},
		{"every address of the machine", func(s *Settings) { s.Address = "0.0.0.0" }, "--active-address"},
		{"the loopback address", func(s *Settings) { s.Address = "127.0.0.1" }, "--active-address"},
		{"a name for an address", func(s *Settings) { s.Address = "pod" }, "--active-address"},
		{"part of a second", func(s *Settings) { s.LeaseDuration = 2500 * time.Millisecond }, "--active-lease-duration"},
		{"a deadline beyond the Lease", func(s *Settings) { s.RenewDeadline = 3 * time.Second }, "--active-renew-deadline"},
		{"one try only", func(s *Settings) { s.RetryPeriod = 1700 * time.Millisecond }, "--active-retry-period"},
		{"no time to hand over", func(s *Settings) { s.HandOverLimit = 0 }, "--active-hand-over-limit"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := sound
			tc.change(&s)
			err := errors.Join(s.Validate()...)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want one of %s", err, tc.want)
			}
		})
	}
}
