package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

func TestFlagsOf(t *testing.T) {
	tests := []struct {
		name      string
		arguments string
		want      []string
		check     []string
	}{
		{"as in the manifests", "haproxy -W -dr -S m.sock,level,admin -f a -f b", []string{"-W", "-dr"}, []string{"-dr"}},
		{"after reloads", "haproxy -W -S m -f a -x sockpair@5 -sf 12 13 -dr -W", []string{"-W", "-dr"}, []string{"-dr"}},
		{"a file that is called like an option", "haproxy -f -dr -W", []string{"-W"}, []string{}},
		{"zero warning", "haproxy -dW -dr -W", []string{"-dW", "-dr", "-W"}, []string{"-dr", "-dW"}},
		{"nothing", "haproxy", []string{}, []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := flagsOf(strings.Fields(tc.arguments))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.check, checkFlags(got, true)); diff != "" {
				t.Errorf("flags of a check (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{"-dr"}, checkFlags(nil, false)); diff != "" {
		t.Errorf("flags of a check with a master that is not seen (-want +got):\n%s", diff)
	}
}

// TestP13NamesAndFlags: the agent says "loaded" exactly when the master takes the
// output, and explains a refusal by the master's own rules, whatever flags it
// was started with.
func TestP13NamesAndFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		init    string // init-addr
		server  string
		withDR  bool
		without bool
	}{
		{"", "127.0.0.1:80", true, true},
		{"", "localhost:80", true, true},
		{"", "name.invalid:80", true, false},
		{" init-addr last,libc,none", "name.invalid:80", true, true},
		{" init-addr libc", "name.invalid:80", true, false},
	}
	for _, withDR := range []bool{true, false} {
		t.Run(fmt.Sprintf("master with -dr: %t", withDR), func(t *testing.T) {
			t.Parallel()
			p := layPod(t)
			if withDR {
				p.startHAProxy()
			} else {
				p.startHAProxyWith()
			}
			p.startAgent()
			if state := p.state(true); slices.Contains(state.StartFlags, "-dr") != withDR || !slices.Contains(state.StartFlags, "-W") {
				t.Errorf("start flags %q", state.StartFlags)
			}
			for _, tc := range tests {
				o := output{api.ConfigPath: p.output("x")[api.ConfigPath] +
					fmt.Sprintf("    use_backend b if { path /b }\nbackend b\n    server s %s%s\n", tc.server, tc.init)}
				want := tc.without
				if withDR {
					want = tc.withDR
				}
				result := p.apply(o)
				if result.OK != want {
					t.Errorf("server %s%s: loaded %t, want %t: %+v", tc.server, tc.init, result.OK, want, result.Error)
				}
				if !result.OK && !strings.Contains(result.Error.Message, "name.invalid") {
					t.Errorf("server %s%s: refused with %q", tc.server, tc.init, result.Error.Message)
				}
			}
		})
	}
}
