package active

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// SliceClient is what is needed of the EndpointSlices of one namespace.
type SliceClient interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*discoveryv1.EndpointSlice, error)
	Update(ctx context.Context, slice *discoveryv1.EndpointSlice, opts metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error)
}

// leadsTo tells whether requests may be sent to address.
func leadsTo(slice *discoveryv1.EndpointSlice, address string) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return slices.Contains(e.Addresses, address)
	})
}

// leadingTo returns the slice that leads to address alone, or nil if it does.
func leadingTo(slice *discoveryv1.EndpointSlice, address string) (*discoveryv1.EndpointSlice, error) {
	if want := addressType(address); slice.AddressType != want {
		return nil, fmt.Errorf("endpoint slice %s/%s is for addresses of type %s, and ours, %s, is of type %s",
			slice.Namespace, slice.Name, slice.AddressType, address, want)
	}
	if len(slice.Endpoints) == 1 && slices.Equal(slice.Endpoints[0].Addresses, []string{address}) &&
		ptr.Deref(slice.Endpoints[0].Conditions.Ready, true) {
		return nil, nil
	}
	changed := slice.DeepCopy()
	changed.Endpoints = []discoveryv1.Endpoint{{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
	}}
	return changed, nil
}

// leadingNowhere returns the slice without endpoints.
func leadingNowhere(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	changed := slice.DeepCopy()
	changed.Endpoints = nil
	return changed
}

func addressType(address string) discoveryv1.AddressType {
	if parsed, err := netip.ParseAddr(address); err == nil && parsed.Is6() {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}
