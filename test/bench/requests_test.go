package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCallOf(t *testing.T) {
	tests := []struct {
		name, path string
		want       call
	}{
		{name: "a list", path: "/api/v1/namespaces/n/secrets", want: call{"GET", "secrets", ""}},
		{name: "an object", path: "/apis/haproxy-haptic.org/v1alpha1/namespaces/n/haproxycfgs/a", want: call{"GET", "haproxycfgs", "a"}},
		{name: "a status", path: "/apis/haproxy-haptic.org/v1alpha1/namespaces/n/haproxycfgs/a/status", want: call{"GET", "haproxycfgs", "a"}},
		{name: "something without a namespace", path: "/version", want: call{"GET", "", ""}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodGet, tc.path, nil)
			if diff := cmp.Diff(tc.want, callOf(request), cmp.AllowUnexported(call{})); diff != "" {
				t.Errorf("callOf(%s) (-want +got):\n%s", tc.path, diff)
			}
		})
	}
}

func TestCostsOf(t *testing.T) {
	calls := []call{
		{"GET", "leases", "a"},
		{"GET", "haproxycfgs", "ordinary"},
		{"GET", "secrets", ""},
		{"GET", "haproxymapfiles", ""},
		{"GET", "haproxymapfiles", ""},
		{"GET", "haproxymapfiles", "m"},
		{"GET", "haproxycfgs", ""},
		{"POST", "haproxymapfiles", ""},
		{"PUT", "secrets", "s"},
		{"POST", "haproxycfgs", ""},
		{"PUT", "haproxycfgs", "c"},
		{"DELETE", "secrets", "old"},
	}
	want := costs{children: 2, extraWrites: 2, lists: 2, childReads: 1, deletes: 1}
	if diff := cmp.Diff(want, costsOf(calls), cmp.AllowUnexported(costs{})); diff != "" {
		t.Errorf("costsOf() (-want +got):\n%s", diff)
	}
}
