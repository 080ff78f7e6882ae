package agenttest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/test/agenttest"
)

// request is an apply of a configuration on top of a state.
func request(at *api.State, config string, sequence uint64) client.ApplyRequest {
	file := api.Declare(api.FileSpec{Path: api.ConfigPath, Kind: api.KindConfig, ReloadOnChange: true}, []byte(config))
	return client.ApplyRequest{
		Manifest: api.Manifest{
			IdentityVersion: api.IdentityVersion, PlanID: file.Digest, PlanProof: api.PlanProof([]byte(config)), PlanSchemaVersion: api.PlanSchemaVersion,
			Token: api.Token{LeaderEpoch: 1, RenderSeq: sequence}, Files: []api.File{file}, Mode: api.ModeAuto,
			ExpectedPrevPlanID: at.AppliedPlanID, ExpectedPrevPlanProof: at.AppliedPlanProof, ExpectedPrevToken: at.AppliedToken,
		},
		Plan: []byte(config), Parts: map[string][]byte{api.ConfigPath: []byte(config)},
	}
}

func state(t *testing.T, a *agenttest.Agent) *api.State {
	t.Helper()
	got, err := a.Client().State(t.Context(), a.Target(), client.StateOptions{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLife: what a controller's test needs of a pod, by the real state machine.
func TestLife(t *testing.T) {
	a := agenttest.Start(t, agenttest.Options{
		PodName: "edge-0", PodUID: "uid-0", TemplateUID: "template", Authority: agenttest.NewAuthority(t), MinReloadInterval: 300 * time.Millisecond,
		Refuse: func(config []byte) string {
			if strings.Contains(string(config), "bad") {
				return "unknown keyword 'bad'"
			}
			return ""
		},
	})
	if got := state(t, a); !got.IsBootstrap() {
		t.Fatalf("a fresh pod: %+v", got)
	}
	var outcomes []api.Outcome
	apply := func(config string, sequence uint64) *api.Result {
		t.Helper()
		result, err := a.Client().Apply(t.Context(), a.Target(), request(state(t, a), config, sequence))
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, result.Mode)
		return result
	}
	first := apply("one", 1)
	apply("two", 2)
	for deadline := time.Now().Add(10 * time.Second); state(t, a).ReloadPendingAt != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the scheduled reload did not come")
		}
	}
	if a.Loaded() != "two" {
		t.Errorf("loaded %q", a.Loaded())
	}
	apply("two", 3)
	a.StopAgent()
	a.StopHAProxy()
	a.StartHAProxy()
	a.StartAgent()
	before := state(t, a)
	refused := apply("bad", 4)
	if refused.Error == nil || !strings.Contains(refused.Error.Message, "unknown keyword") {
		t.Errorf("refusal: %+v", refused.Error)
	}
	if got := state(t, a); !cmp.Equal(before.Plans, got.Plans) || got.RunningPlanID == first.PlanID || a.Loaded() != "two" {
		t.Errorf("after the refusal: %+v", got)
	}
	want := []api.Outcome{api.OutcomeReload, api.OutcomeScheduled, api.OutcomeNoop, api.OutcomeRejected}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}
