package client

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// hangUp ends a connection without an answer.
func hangUp(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	conn.Close()
}

// TestLostAnswersAreFound: an apply whose answer was lost ends with the result
// that the state shows, if it is that of this apply and still holds.
func TestLostAnswersAreFound(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	plans := api.Plans{AppliedPlanID: "new", AppliedPlanProof: "proof", RunningPlanID: "new", RunningPlanProof: "proof"}
	token := api.Token{LeaderEpoch: 1, RenderSeq: 2}
	worker := api.HAProxy{WorkerPID: 7, WorkerStartTimeUnixMicros: 9}
	done := api.Result{PlanID: "new", OK: true, Mode: api.OutcomeReload, Plans: plans, AppliedToken: token, HAProxy: worker, At: at}
	state := func(change func(*api.State)) api.State {
		last := done
		s := api.State{APIVersion: api.Version, PodUID: "uid", Plans: plans, AppliedToken: token, HAProxy: worker, LastApply: &last}
		change(&s)
		return s
	}
	tests := []struct {
		name  string
		after api.State
		found bool
	}{
		{"it was carried out", state(func(*api.State) {}), true},
		{"it was rejected", state(func(s *api.State) {
			s.Plans, s.AppliedToken = api.Plans{}, api.Token{}
			s.LastApply.OK, s.LastApply.Mode = false, api.OutcomeRejected
		}), true},
		{"it did not get there", state(func(s *api.State) { s.LastApply.At = at.Add(-time.Hour) }), false},
		{"an earlier one of the same plan was rejected", state(func(s *api.State) { s.LastApply.OK, s.LastApply.At = false, at.Add(-time.Hour) }), false},
		{"nothing was ever carried out", state(func(s *api.State) { s.LastApply = nil }), false},
		{"another plan", state(func(s *api.State) { s.LastApply.PlanID = "other" }), false},
		{"another plan of that ID", state(func(s *api.State) {
			s.AppliedPlanProof, s.LastApply.AppliedPlanProof = "x", "x"
		}), false},
		{"another term's apply of the same plan", state(func(s *api.State) {
			s.AppliedToken.LeaderEpoch = 2
			s.LastApply.AppliedToken = s.AppliedToken
		}), false},
		{"another worker by now", state(func(s *api.State) { s.HAProxy.WorkerPID = 8 }), false},
		{"another output by now", state(func(s *api.State) { s.RunningPlanID = "other" }), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var applies atomic.Int32
			c, target := fake(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					answer(t, w, http.StatusOK, tc.after)
					return
				}
				applies.Add(1)
				hangUp(t, w)
			})
			request := ApplyRequest{Manifest: api.Manifest{PlanID: "new", PlanProof: "proof", Token: token},
				Before: &api.State{LastApply: &api.Result{PlanID: "new", At: at.Add(-time.Hour)}}}
			result, err := c.Apply(t.Context(), target, request)
			var unanswered *UnansweredError
			if tc.found && (err != nil || !cmp.Equal(tc.after.LastApply, result)) || !tc.found && !errors.As(err, &unanswered) {
				t.Errorf("got %+v, %v", result, err)
			}
			if applies.Load() != 1 {
				t.Errorf("the apply was sent %d times", applies.Load())
			}
			request.Before = nil
			if _, err := c.Apply(t.Context(), target, request); !errors.As(err, &unanswered) {
				t.Errorf("without a state to start from: %v", err)
			}
		})
	}
}

// TestResolvingIsBounded: neither a pod that stays silent nor the end of time
// keeps the caller.
func TestResolvingIsBounded(t *testing.T) {
	var asked atomic.Int32
	c, target := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked.Add(1)
		}
		hangUp(t, w)
	})
	request := ApplyRequest{Before: &api.State{}}
	var unanswered *UnansweredError
	if _, err := c.Apply(t.Context(), target, request); !errors.As(err, &unanswered) || asked.Load() != int32(looks.Steps*tries.Steps) {
		t.Errorf("after %d looks: %v", asked.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, target = fake(t, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		hangUp(t, w)
	})
	if _, err := c.Apply(ctx, target, request); !errors.As(err, &unanswered) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSafeRequestsAreRepeated: what changes nothing twice is sent again when the
// connection breaks, an apply only when the agent said that it dropped it.
func TestSafeRequestsAreRepeated(t *testing.T) {
	busy := func(t *testing.T, w http.ResponseWriter) {
		answer(t, w, http.StatusServiceUnavailable, api.ErrorDetail{Stage: api.StageBusy})
	}
	startup := func(t *testing.T, w http.ResponseWriter) {
		answer(t, w, http.StatusServiceUnavailable, api.ErrorDetail{Stage: api.StageStartup})
	}
	get := func(c *Client, target Target) error {
		_, err := c.State(t.Context(), target, StateOptions{})
		return err
	}
	announce := func(c *Client, target Target) error {
		_, err := c.Announce(t.Context(), target, 3)
		return err
	}
	apply := func(c *Client, target Target) error {
		_, err := c.Apply(t.Context(), target, ApplyRequest{})
		return err
	}
	tests := []struct {
		name    string
		call    func(*Client, Target) error
		trouble func(*testing.T, http.ResponseWriter)
		times   int32
		sent    int32
		works   bool
	}{
		{"a state that is lost twice", get, hangUp, 2, 3, true},
		{"a state that is always lost", get, hangUp, 9, int32(tries.Steps), false},
		{"an announcement that is lost", announce, hangUp, 1, 2, true},
		{"an apply that is lost", apply, hangUp, 1, 1, false},
		{"an apply to a busy agent", apply, busy, 2, 3, true},
		{"an apply to one that is always busy", apply, busy, 9, int32(tries.Steps), false},
		{"an apply to one that is not ready", apply, startup, 1, 1, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int32
			c, target := fake(t, func(w http.ResponseWriter, _ *http.Request) {
				if sent.Add(1) <= tc.times {
					tc.trouble(t, w)
					return
				}
				answer(t, w, http.StatusOK, api.State{APIVersion: api.Version, PodUID: "uid"})
			})
			if err := tc.call(c, target); (err == nil) != tc.works || sent.Load() != tc.sent {
				t.Errorf("after %d tries: %v", sent.Load(), err)
			}
		})
	}
}
