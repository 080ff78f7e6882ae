package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// TestP11SevenReloads: the answer to an apply is what became of the worker, for
// each way in which a reload can go.
func TestP11SevenReloads(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	good := p.output("good")
	warnings := ""
	for i := range 1500 {
		warnings += fmt.Sprintf("backend b%d\n    timeout http-request 1s\n    http-request redirect location /\n    http-request set-header x%d y\n", i, i)
	}
	bigMap := strings.Builder{}
	for i := range 4 << 20 / 32 {
		fmt.Fprintf(&bigMap, "host-%012d.example value-x\n", i)
	}
	tests := []struct {
		name    string
		output  output
		refusal string // part of the message; empty when it must load
	}{
		{"a good configuration is loaded", good, ""},
		{"a syntax error is refused with HAProxy's words", output{api.ConfigPath: good[api.ConfigPath] + "    no-such-keyword\n"}, "unknown keyword 'no-such-keyword'"},
		{"a missing map is refused", output{api.ConfigPath: good[api.ConfigPath] + "    http-request deny if { path,map(absent.map) -m found }\n"}, "absent.map"},
		{"a missing certificate is refused", output{api.ConfigPath: good[api.ConfigPath] + "    bind 127.0.0.1:1 ssl crt absent.pem\n"}, "absent.pem"},
		{"a held port is refused although its check passes",
			output{api.ConfigPath: good[api.ConfigPath] + fmt.Sprintf("    bind %s\n", held.Addr())}, "in use"},
		{"1,500 lines of warnings are loaded", output{api.ConfigPath: good[api.ConfigPath] + warnings}, ""},
		{"4 MiB of map are loaded", output{api.ConfigPath: good[api.ConfigPath] +
			"    http-request deny if { path,map(big.map) -m found }\n"}.with("big.map", bigMap.String()), ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := p.state(true)
			began := time.Now()
			result := p.apply(tc.output)
			if took := time.Since(began); took > reloadWait/2 {
				t.Errorf("took %s: a command waited for a time-out", took)
			}
			after := p.state(true)
			if tc.refusal == "" {
				checkLoaded(t, p, before, result, after)
				return
			}
			checkRefused(t, before, result, after, tc.refusal)
		})
	}
}

func checkLoaded(t *testing.T, p *pod, before *api.State, result *api.Result, after *api.State) {
	t.Helper()
	if !result.OK || result.Mode != api.OutcomeReload {
		t.Fatalf("ended as %s: %+v\n%s", result.Mode, result.Error, p.log)
	}
	if before.HAProxy.WorkerPID == result.HAProxy.WorkerPID || !result.HAProxy.HasWorker() {
		t.Errorf("worker is %+v, was %+v: want a new one", result.HAProxy, before.HAProxy)
	}
	if after.RunningPlanID != result.PlanID || after.Phase != api.PhaseConfigured || after.WorkerStatus != api.WorkerOwned {
		t.Errorf("state says %s %s %s", after.RunningPlanID, after.Phase, after.WorkerStatus)
	}
	if got := p.served(); got != "good" {
		t.Errorf("frontend serves %q", got)
	}
}

func checkRefused(t *testing.T, before *api.State, result *api.Result, after *api.State, message string) {
	t.Helper()
	if result.OK || result.Mode != api.OutcomeRejected || !result.Rollback || result.Error == nil || result.Error.Stage != api.StageReload {
		t.Fatalf("ended as %s: %+v", result.Mode, result.Error)
	}
	if !strings.Contains(result.Error.Message, message) {
		t.Errorf("message is %q, want it to contain %q", result.Error.Message, message)
	}
	if diff := cmp.Diff(before.Plans, after.Plans); diff != "" {
		t.Errorf("plans changed (-before +after):\n%s", diff)
	}
	if before.HAProxy != after.HAProxy || after.InvariantViolation != "" {
		t.Errorf("worker is %+v, was %+v; violation %q", after.HAProxy, before.HAProxy, after.InvariantViolation)
	}
}

// TestP11FastAlternation: good and bad in quick succession give exactly that.
func TestP11FastAlternation(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	var got, want []api.Outcome
	rounds := oftenUnlessFull(50, 10)
	for i := range rounds {
		o := p.output(fmt.Sprintf("round %d", i))
		expected := api.OutcomeReload
		if i%2 == 1 {
			o, expected = output{api.ConfigPath: o[api.ConfigPath] + "    nonsense\n"}, api.OutcomeRejected
		}
		got, want = append(got, p.apply(o).Mode), append(want, expected)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if got, want := p.served(), fmt.Sprintf("round %d", rounds-2); got != want {
		t.Errorf("frontend serves %q", got)
	}
}

// TestP12PortFreedLater: the same plan works once the port is free, with no
// help, and until then a restart of the pod finds the plan before.
func TestP12PortFreedLater(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("before"))
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := output{api.ConfigPath: p.output("after")[api.ConfigPath] + fmt.Sprintf("    bind %s\n", held.Addr())}
	request := p.request(o)
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || result.Mode != api.OutcomeRejected {
		t.Fatalf("apply with the port held: %+v, %v", result, err)
	}
	if got := p.served(); got != "before" {
		t.Errorf("frontend serves %q", got)
	}
	config, err := os.ReadFile(p.layout.current() + "/haproxy.cfg")
	if err != nil || string(config) != p.config("before") {
		t.Errorf("disk does not hold the plan before: %v", err)
	}
	held.Close()
	if result, err = p.client.Apply(t.Context(), p.target, request); err != nil || result.Mode != api.OutcomeReload {
		t.Fatalf("the same apply with the port free: %+v, %v", result, err)
	}
	if got := p.served(); got != "after" {
		t.Errorf("frontend serves %q", got)
	}
}

// TestRejectedFirstApplyLeavesABootstrapPod: recovery may still serve it, and a
// leader from before the rejected term may not.
func TestRejectedFirstApplyLeavesABootstrapPod(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	if !p.state(true).IsBootstrap() {
		t.Fatalf("a new pod is not a bootstrap pod: %+v", p.state(true))
	}
	request := output{api.ConfigPath: "nonsense\n"}.request(api.Token{LeaderEpoch: 7, RenderSeq: 1})
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || result.Mode != api.OutcomeRejected {
		t.Fatalf("apply: %+v, %v", result, err)
	}
	state := p.state(true)
	if !state.IsBootstrap() || state.EpochFloor != 7 {
		t.Errorf("pod is %s with floor %d, want bootstrap with floor 7", state.Phase, state.EpochFloor)
	}
	older := p.output("older").request(api.Token{LeaderEpoch: 6, RenderSeq: 9})
	_, err = p.client.Apply(t.Context(), p.target, older)
	var conflict *client.ConflictError
	if !errors.As(err, &conflict) || conflict.Conflict.Reason != api.ReasonStaleEpoch {
		t.Errorf("apply of an earlier term: %v", err)
	}
}

// TestNoopAndRepeat: the same output again does nothing, the same manifest
// again gets the first answer.
func TestNoopAndRepeat(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	request := p.request(p.output("one"))
	first, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || first.Mode != api.OutcomeReload {
		t.Fatalf("apply: %+v, %v", first, err)
	}
	again, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("repeat (-first +again):\n%s", diff)
	}
	noop := p.apply(p.output("one"))
	if noop.Mode != api.OutcomeNoop || noop.HAProxy != first.HAProxy || noop.AppliedToken.RenderSeq != 2 {
		t.Errorf("same output with a new token: %+v", noop)
	}
	forced := p.request(p.output("one"))
	forced.Manifest.Mode = api.ModeReload
	result, err := p.client.Apply(t.Context(), p.target, forced)
	if err != nil || result.Mode != api.OutcomeReload || result.HAProxy == first.HAProxy {
		t.Errorf("forced reload: %+v, %v", result, err)
	}
}

// TestUnresolvedReloadIsRolledBack: when no worker is seen to run or refuse an
// output, that is what is said, and the pod restarts with the set before.
func TestUnresolvedReloadIsRolledBack(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	first := p.mustLoad(p.output("one"))
	request := p.request(p.output("two"))
	p.killHAProxy()
	p.agent.haproxy.wait = 300 * time.Millisecond
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || result.OK || result.Error.Stage != api.StageUnresolved || !result.Rollback {
		t.Fatalf("apply without HAProxy: %+v, %v", result, err)
	}
	p.startHAProxy()
	eventually(t, "adoption", func() bool { return p.state(false).WorkerStatus == api.WorkerOwned })
	if state := p.state(true); state.RunningPlanID != first.PlanID || p.served() != "one" {
		t.Errorf("runs %s and serves %q", state.RunningPlanID, p.served())
	}
	p.agent.haproxy.wait = waitLimit
	p.mustLoad(p.output("two"))
}

// TestBuiltInBootstrap: the configuration every pod starts from is one that
// HAProxy takes.
func TestBuiltInBootstrap(t *testing.T) {
	t.Parallel()
	binary, path := haproxyBinary(t), filepath.Join(t.TempDir(), "bootstrap.cfg")
	must(t, os.WriteFile(path, defaultBootstrap, 0o600))
	check := exec.CommandContext(t.Context(), binary, "-c", "-dW", "-f", path)
	check.Env = append(os.Environ(), "POD_IP=127.0.0.1")
	if output, err := check.CombinedOutput(); err != nil {
		t.Errorf("check of the built-in bootstrap: %v\n%s", err, output)
	}
}
