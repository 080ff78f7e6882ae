package probes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTally(t *testing.T) {
	type verdict struct{ OK, Decided bool }
	tests := []struct {
		name             string
		success, failure int32
		initial          bool
		results          []bool
		want             []verdict
	}{
		{name: "one success makes ready", success: 1, failure: 3, results: []bool{true}, want: []verdict{{true, true}}},
		{name: "equal results are decided once", success: 1, failure: 3, results: []bool{true, true}, want: []verdict{{true, true}, {true, false}}},
		{
			name: "only a run of failures counts", success: 1, failure: 2, initial: true, results: []bool{false, true, false, false},
			want: []verdict{{true, false}, {true, true}, {true, false}, {false, true}},
		},
		{name: "two successes are needed when two are asked for", success: 2, failure: 1, results: []bool{true, true}, want: []verdict{{false, false}, {true, true}}},
		{name: "thresholds of zero count as one", results: []bool{true, false}, want: []verdict{{true, true}, {false, true}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tally := NewTally(&corev1.Probe{SuccessThreshold: tc.success, FailureThreshold: tc.failure}, tc.initial)
			var got []verdict
			for _, result := range tc.results {
				ok, decided := tally.Add(result)
				got = append(got, verdict{ok, decided})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorkerAsksAtTheRightTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var asked, decided []string
		at := func() string { return time.Since(begin).String() }
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		answers := []error{errors.New("not yet"), nil, nil, errors.New("gone")}
		Worker{
			Spec:  &corev1.Probe{InitialDelaySeconds: 1, PeriodSeconds: 2},
			First: time.Second,
			Ask: func(context.Context) error {
				asked = append(asked, at())
				return answers[len(asked)-1]
			},
			Failed:  func(error) {},
			Decided: func(ok bool) { decided = append(decided, at()+map[bool]string{true: " well", false: " ill"}[ok]) },
		}.Run(ctx, false)
		if diff := cmp.Diff([]string{"2s", "4s", "6s", "8s"}, asked); diff != "" {
			t.Errorf("asked at (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"2s ill", "4s well", "8s ill"}, decided); diff != "" {
			t.Errorf("decided at (-want +got):\n%s", diff)
		}
	})
}

func TestStartupWorkerEndsWithItsFirstSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		Worker{
			Spec:    &corev1.Probe{PeriodSeconds: 1},
			Ask:     func(context.Context) error { asked++; return nil },
			Failed:  func(error) {},
			Decided: func(bool) {},
		}.Run(t.Context(), true)
		if asked != 1 {
			t.Errorf("asked %d times, want 1", asked)
		}
	})
}
