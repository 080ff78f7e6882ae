package deploy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// recovering is a fleet whose agents look at the expected phase too, and keep
// what they were asked.
type recovering struct {
	*fleetOf
	mu        sync.Mutex
	manifests []api.Manifest
	// lose makes that many applies vanish on the way, and quiet the states after
	// them.
	lose, quiet int
	// before runs ahead of each apply.
	before func(a *agent)
}

func (r *recovering) State(ctx context.Context, target client.Target, opts client.StateOptions) (*api.State, error) {
	r.mu.Lock()
	silent := len(r.manifests) > 0 && r.quiet > 0
	if silent {
		r.quiet--
	}
	r.mu.Unlock()
	if silent {
		return nil, errors.New("no route to host")
	}
	return r.fleetOf.State(ctx, target, opts)
}

func (r *recovering) Apply(ctx context.Context, target client.Target, request client.ApplyRequest) (*api.Result, error) {
	a := r.at(target)
	r.mu.Lock()
	r.manifests = append(r.manifests, request.Manifest)
	lost := r.lose > 0
	if lost {
		r.lose--
	}
	r.mu.Unlock()
	if lost {
		return nil, &client.UnansweredError{Pod: a.pod.Name, Err: errors.New("connection reset")}
	}
	if r.before != nil {
		r.before(a)
	}
	a.mu.Lock()
	phase, conflict := a.state.Phase, a.conflict(api.ReasonPhaseMismatch)
	a.mu.Unlock()
	if request.Manifest.ExpectedPhase != "" && request.Manifest.ExpectedPhase != phase {
		return nil, conflict
	}
	return r.fleetOf.Apply(ctx, target, request)
}

// started is what one start did.
type started struct {
	Mode, Err            string
	Guards, Sent, Landed int
}

func (r *recovering) start(t *testing.T, c *Candidate, guard func(context.Context) error) started {
	t.Helper()
	var out started
	b := NewBootstrap(Settings{TemplateUID: templateUID}, r, r)
	entry, err := b.Start(t.Context(), BootstrapOrder{Pod: r.agent("a").pod, Candidate: c, Guard: func(ctx context.Context) error {
		out.Guards++
		if guard != nil {
			return guard(ctx)
		}
		return nil
	}})
	out.Mode, out.Sent, out.Landed = entry.Mode, len(r.manifests), r.agent("a").count()
	if err != nil {
		out.Err = err.Error()
	} else if !entry.Confirms(c.Checksum, c.Output.Plan.ID) {
		t.Errorf("entry %+v is no receipt", entry)
	}
	return out
}

func TestBootstrapPodsAreStarted(t *testing.T) {
	errGuard := errors.New("the intent is another")
	take := func(plan string) func(a *agent) {
		return func(a *agent) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.state.Phase, a.state.AppliedPlanID, a.state.RunningPlanID = api.PhaseConfigured, plan, plan
		}
	}
	tests := []struct {
		name  string
		setup func(r *recovering, a *agent)
		guard error
		want  started
	}{
		{name: "with one apply behind one guard", want: started{Mode: "reload", Guards: 1, Sent: 1, Landed: 1}},
		{name: "not when the guard refuses", guard: errGuard, want: started{Err: errGuard.Error(), Guards: 1}},
		{name: "not when the pod was configured meanwhile",
			setup: func(r *recovering, a *agent) { r.before = take("other") },
			want: started{Guards: 1, Sent: 1,
				Err: `pod a is no bootstrap pod: phase "configured", applied plan "other", running plan "other", worker "owned"`}},
		{name: "not when the pod is configured already",
			setup: func(r *recovering, a *agent) { take("other")(a) },
			want:  started{Err: `pod a is no bootstrap pod: phase "configured", applied plan "other", running plan "other", worker "owned"`}},
		{name: "not when the agent lost its state",
			setup: func(r *recovering, a *agent) { a.state.Phase = api.PhaseDisowned },
			want:  started{Err: `pod a is no bootstrap pod: phase "disowned", applied plan "", running plan "", worker "owned"`}},
		{name: "with another guard after an apply that left no trace",
			setup: func(r *recovering, a *agent) { r.lose = 1 },
			want:  started{Mode: "reload", Guards: 2, Sent: 2, Landed: 1}},
		{name: "with a lost answer resolved by reading",
			setup: func(r *recovering, a *agent) { a.mute = true },
			want:  started{Mode: "noop", Guards: 1, Sent: 1, Landed: 1}},
		{name: "with a lost answer resolved once the pod answers again",
			setup: func(r *recovering, a *agent) { a.mute, r.quiet = true, 5 },
			want:  started{Mode: "noop", Guards: 1, Sent: 1, Landed: 1}},
		{name: "with an unknown end when the pod never answers again",
			setup: func(r *recovering, a *agent) { a.mute, r.quiet = true, 1<<20 },
			want: started{Guards: 1, Sent: 1, Landed: 1,
				Err: "pod a answered neither an apply nor when asked about it: agent of pod a: no answer to an apply: connection reset, then: no route to host"}},
		{name: "with a reload that the pod put off waited for",
			setup: func(r *recovering, a *agent) { a.schedule = 3 * time.Second },
			want:  started{Mode: "reload", Guards: 1, Sent: 1, Landed: 1}},
		{name: "with a refusal of a reload that the pod put off",
			setup: func(r *recovering, a *agent) { a.schedule, a.refuseLater = 3*time.Second, "unknown keyword" },
			want:  started{Guards: 1, Sent: 1, Landed: 1, Err: "rejected at stage reload: unknown keyword"}},
		{name: "with HAProxy's refusal, which is not repeated",
			setup: func(r *recovering, a *agent) { a.reject = "cannot bind socket" },
			want:  started{Guards: 1, Sent: 1, Landed: 1, Err: "rejected at stage reload: cannot bind socket"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recovering{fleetOf: newFleet("a")}
				if tc.setup != nil {
					tc.setup(r, r.agent("a"))
				}
				got := r.start(t, candidate(t, 0, "one"), func(context.Context) error { return tc.guard })
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("start (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAStartClaimsNothingButABootstrapPod(t *testing.T) {
	r := &recovering{fleetOf: newFleet("a")}
	c := candidate(t, 0, "one")
	r.start(t, c, nil)
	want := api.Manifest{
		IdentityVersion: api.IdentityVersion, PlanID: c.Output.Plan.ID, PlanProof: c.proof, PlanSchemaVersion: api.PlanSchemaVersion,
		Token: api.Token{LeaderEpoch: 7}, ExpectedPhase: api.PhaseBootstrap, Files: c.files, Mode: api.ModeAuto,
	}
	if diff := cmp.Diff([]api.Manifest{want}, r.manifests); diff != "" {
		t.Errorf("manifests (-want +got):\n%s", diff)
	}
}

func TestAStartTellsThatThePodOutranksTheTerm(t *testing.T) {
	r := &recovering{fleetOf: newFleet("a")}
	r.agent("a").fence = api.Token{LeaderEpoch: 9}
	b := NewBootstrap(Settings{TemplateUID: templateUID}, r, r)
	_, err := b.Start(t.Context(), BootstrapOrder{
		Pod: r.agent("a").pod, Candidate: candidate(t, 0, "one"), Guard: func(context.Context) error { return nil },
	})
	if floor, ok := Outranked(err); !ok || floor != 9 {
		t.Errorf("Outranked(%v) = %d, %v, want 9, true", err, floor, ok)
	}
}

func TestAStartTakesNoTokenOfARender(t *testing.T) {
	r := &recovering{fleetOf: newFleet("a")}
	got := r.start(t, candidate(t, 3, "one"), nil)
	if !strings.Contains(got.Err, "sequence 3") || got.Sent != 0 {
		t.Errorf("start = %+v, want a refusal that names the sequence, and no apply", got)
	}
}

func TestAnEndedTermLeavesAStartUnresolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recovering{fleetOf: newFleet("a"), quiet: 1 << 20}
		r.agent("a").mute = true
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		b := NewBootstrap(Settings{TemplateUID: templateUID}, r, r)
		_, err := b.Start(ctx, BootstrapOrder{
			Pod: r.agent("a").pod, Candidate: candidate(t, 0, "one"), Guard: func(context.Context) error { return nil },
		})
		var unresolved *UnresolvedError
		if !errors.As(err, &unresolved) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start() = %v, want an unresolved start at the end of its context", err)
		}
	})
}
