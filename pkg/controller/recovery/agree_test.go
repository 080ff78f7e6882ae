package recovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

func TestThePodThatDoesNotAgreeIsRefusedByName(t *testing.T) {
	one, two := site(t, "one"), site(t, "two")
	target, err := targetOf(one)
	if err != nil {
		t.Fatal(err)
	}
	configured := configuredState(t, one)
	soon := time.Now()
	tests := []struct {
		name  string
		state *api.State
		err   error
		age   time.Duration
		// starting says that recovery itself is busy with the pod.
		starting bool
		// want is empty for a pod that agrees, else reason and part of the message.
		want     selection.Reason
		mentions string
		quiet    bool
	}{
		{name: "a pod that runs exactly the checkpoint agrees", state: configured},
		{name: "a pod that came to it by runtime operations agrees", state: changed(configured, func(s *api.State) {
			s.WorkerOpsPlanID, s.WorkerOpsPlanProof = s.RunningPlanID, s.RunningPlanProof
			s.RunningPlanID, s.RunningPlanProof = two.Plan.ID, "sha256:00"
		})},
		{name: "a bootstrap pod does not matter", state: bootstrapState()},
		{name: "another plan", state: configuredState(t, two), want: selection.ReasonPodOnAnotherPlan, mentions: two.Plan.ID},
		{name: "another plan under the same ID", state: changed(configured, func(s *api.State) {
			s.AppliedPlanProof = "sha256:00"
		}), want: selection.ReasonPodOnAnotherPlan, mentions: "proof"},
		{name: "a worker that still runs another plan", state: changed(configured, func(s *api.State) {
			s.RunningPlanID, s.RunningPlanProof = two.Plan.ID, "sha256:00"
		}), want: selection.ReasonPodOnAnotherPlan, mentions: "running plan"},
		{name: "a worker whose plan has another proof", state: changed(configured, func(s *api.State) {
			s.RunningPlanProof = "sha256:00"
		}), want: selection.ReasonPodOnAnotherPlan, mentions: "running plan"},
		{name: "a file with other bytes", state: changed(configured, func(s *api.State) {
			s.Files["ssl/site.pem"] = api.FileState{Digest: "0000000000000000", Size: 4}
		}), want: selection.ReasonPodFilesDiffer, mentions: `"ssl/site.pem"`},
		{name: "a file with the same digest and another proof", state: changed(configured, func(s *api.State) {
			f := s.Files["ssl/site.pem"]
			f.Proof = "sha256:00"
			s.Files["ssl/site.pem"] = f
		}), want: selection.ReasonPodFilesDiffer, mentions: `"ssl/site.pem"`},
		{name: "a missing file", state: changed(configured, func(s *api.State) {
			delete(s.Files, "maps/hosts.map")
		}), want: selection.ReasonPodFilesDiffer, mentions: `"maps/hosts.map"`},
		{name: "one file too many", state: changed(configured, func(s *api.State) {
			s.Files["maps/old.map"] = api.FileState{Size: 7}
		}), want: selection.ReasonPodFilesDiffer, mentions: "expected none, found 7 bytes"},
		{name: "a reload to come", state: changed(configured, func(s *api.State) {
			s.ReloadPendingAt = &soon
		}), want: selection.ReasonPodPending},
		{name: "a broken invariant", state: changed(configured, func(s *api.State) {
			s.InvariantViolation = "disk_is_the_desired_set"
		}), want: selection.ReasonPodViolating, mentions: "disk_is_the_desired_set"},
		{name: "a bootstrap pod with a broken invariant", state: changed(bootstrapState(), func(s *api.State) {
			s.InvariantViolation = "x"
		}), want: selection.ReasonPodViolating},
		{name: "a disowned pod", state: changed(configured, func(s *api.State) {
			s.Phase, s.Plans = api.PhaseDisowned, api.Plans{}
		}), want: selection.ReasonPodDisowned},
		{name: "a foreign worker", state: changed(configured, func(s *api.State) {
			s.WorkerStatus = api.WorkerForeign
		}), age: time.Minute, want: selection.ReasonPodWorkerUnknown, mentions: `"foreign"`},
		{name: "a bootstrap pod without a worker", state: changed(bootstrapState(), func(s *api.State) {
			s.WorkerStatus = api.WorkerAbsent
		}), age: time.Minute, want: selection.ReasonPodWorkerUnknown},
		{name: "a bootstrap pod whose worker is about to come", state: changed(bootstrapState(), func(s *api.State) {
			s.WorkerStatus = api.WorkerAbsent
		}), age: time.Second, want: selection.ReasonPodWorkerUnknown, quiet: true},
		{name: "a state that was not verified", state: changed(configured, func(s *api.State) {
			s.Verified = false
		}), want: selection.ReasonPodUnverified},
		{name: "a bootstrap state that was not verified", state: changed(bootstrapState(), func(s *api.State) {
			s.Verified = false
		}), want: selection.ReasonPodUnverified},
		{name: "another template's pod", state: changed(configured, func(s *api.State) {
			s.TemplateUID = "other-uid"
		}), want: selection.ReasonPodForeign, mentions: "other-uid"},
		{name: "another template's pod that does not even tell its state", err: fmt.Errorf("reading: %w", &client.ConflictError{
			Pod: "a", Conflict: api.Conflict{Reason: api.ReasonWrongTemplate, TemplateUID: "other-uid"},
		}), age: time.Second, want: selection.ReasonPodForeign, mentions: "other-uid"},
		{name: "another template's bootstrap pod", state: changed(bootstrapState(), func(s *api.State) {
			s.TemplateUID = "other-uid"
		}), want: selection.ReasonPodForeign},
		{name: "a bootstrap phase with a token", state: changed(bootstrapState(), func(s *api.State) {
			s.AppliedToken = api.Token{LeaderEpoch: 1}
		}), want: selection.ReasonPodContradictory},
		{name: "a bootstrap phase with a last good plan", state: changed(bootstrapState(), func(s *api.State) {
			s.LKGPlanID = "x"
		}), want: selection.ReasonPodContradictory},
		{name: "a configured phase without a plan", state: changed(configured, func(s *api.State) {
			s.Plans = api.Plans{}
		}), want: selection.ReasonPodContradictory},
		{name: "a phase of a later release", state: changed(configured, func(s *api.State) {
			s.Phase = "draining"
		}), want: selection.ReasonPodContradictory, mentions: "draining"},
		{name: "a silent pod", err: errors.New("no route to host"), age: time.Minute,
			want: selection.ReasonPodUnreachable, mentions: "kubectl delete pod a --force"},
		{name: "a pod that is silent while it loads the checkpoint", err: context.DeadlineExceeded, age: time.Minute, starting: true,
			want: selection.ReasonPodStarting, mentions: "being started", quiet: true},
		{name: "a pod that put off loading the checkpoint", state: changed(configured, func(s *api.State) {
			s.ReloadPendingAt = &soon
		}), age: time.Minute, starting: true, want: selection.ReasonPodPending, quiet: true},
		{name: "a silent pod that is just starting", err: errors.New("connection refused"), age: time.Second,
			want: selection.ReasonPodStarting, quiet: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			fleet := []Sighting{{Pod: Pod{Name: "a", UID: "a-uid"}, State: tc.state, Err: tc.err, Age: tc.age, Starting: tc.starting}}
			got := joined(judgeFleet(fleet, web.UID, &target).Refusals)
			if tc.want == "" {
				if got != nil {
					t.Fatalf("refused by %v", got)
				}
				return
			}
			if got == nil {
				t.Fatalf("agreed, want %s", tc.want)
			}
			if got.Reason != tc.want || got.Quiet != tc.quiet || got.Checksum != target.Checksum || got.Do == "" {
				t.Errorf("refusal = %+v, want %s, quiet %v, with checksum and advice", got, tc.want, tc.quiet)
			}
			if text := got.Error(); !strings.Contains(text, "pod a") || !strings.Contains(text, tc.mentions) {
				t.Errorf("refusal %q does not mention pod a and %q", text, tc.mentions)
			}
		})
	}
}

func TestAFleetIsJudgedAsAWhole(t *testing.T) {
	one, two := site(t, "one"), site(t, "two")
	target, err := targetOf(one)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string, s *api.State) Sighting {
		return Sighting{Pod: Pod{Name: name, UID: name}, State: s, Age: time.Minute}
	}
	tests := []struct {
		name      string
		fleet     []Sighting
		bootstrap []string
		refusals  []selection.Reason
	}{
		{name: "no pod", bootstrap: []string{}, refusals: []selection.Reason{}},
		{name: "nothing but bootstrap pods: the receipt stands in",
			fleet:     []Sighting{at("b", bootstrapState()), at("a", bootstrapState())},
			bootstrap: []string{"a", "b"}, refusals: []selection.Reason{}},
		{name: "agreeing pods beside a bootstrap pod",
			fleet:     []Sighting{at("a", configuredState(t, one)), at("b", bootstrapState())},
			bootstrap: []string{"b"}, refusals: []selection.Reason{}},
		{name: "mixed plans",
			fleet:     []Sighting{at("a", configuredState(t, one)), at("b", bootstrapState()), at("c", configuredState(t, two))},
			bootstrap: []string{"b"}, refusals: []selection.Reason{selection.ReasonPodOnAnotherPlan}},
		{name: "what hides a pod's plan comes before what it is",
			fleet: []Sighting{
				at("a", configuredState(t, two)), at("b", bootstrapState()), {Pod: Pod{Name: "c", UID: "c"}, Age: time.Minute},
				{Pod: Pod{Name: "d", UID: "d"}, Age: time.Second},
			},
			bootstrap: []string{"b"}, refusals: []selection.Reason{selection.ReasonPodUnreachable, selection.ReasonPodOnAnotherPlan, selection.ReasonPodStarting}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := judgeFleet(tc.fleet, web.UID, &target)
			if diff := cmp.Diff(tc.bootstrap, names(got.Bootstrap)); diff != "" {
				t.Errorf("bootstrap pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.refusals, reasons(got.Refusals)); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefusalNamesTheOtherPodsToo(t *testing.T) {
	var fleet []Sighting
	for i := range maxNamed + 3 {
		fleet = append(fleet, Sighting{Pod: Pod{Name: fmt.Sprintf("pod-%02d", i), UID: fmt.Sprint(i)}, Age: time.Minute})
	}
	f := joined(judgeFleet(fleet, web.UID, nil).Refusals)
	if len(f.Also) != maxNamed+1 || !strings.Contains(f.Also[0], "pod-01") || f.Also[maxNamed] != "and 2 more" {
		t.Errorf("also = %q, want %d pods from pod-01 on, and 2 more", f.Also, maxNamed)
	}
}

func TestEveryPodReasonHasARank(t *testing.T) {
	seen := map[selection.Reason]bool{}
	for _, reason := range podReasons {
		if seen[reason] {
			t.Errorf("%s is ranked twice", reason)
		}
		seen[reason] = true
	}
	if rank(&selection.Refusal{Reason: selection.ReasonGateRefused}) >= 0 {
		t.Errorf("a reason that concerns no pod is ranked")
	}
}

func TestTextsOfSilenceDoNotChangeByThemselves(t *testing.T) {
	dial := func(port int) error {
		return fmt.Errorf("GET /v1/state: %w", &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: syscall.ECONNRESET,
		})
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{name: "the local port of a connection", err: dial(40001), want: "read: connection reset by peer"},
		{name: "another one", err: dial(40002), want: "read: connection reset by peer"},
		{name: "a timeout", err: fmt.Errorf("x: %w", context.DeadlineExceeded), want: "no answer in time"},
		{name: "an answer that is a refusal",
			err:  fmt.Errorf("x: %w", &client.RefusedError{Status: 503, Detail: api.ErrorDetail{Stage: "startup", Message: "not yet"}}),
			want: `status 503 at stage "startup": not yet`},
		{name: "anything else at its root", err: fmt.Errorf("after 3.14 s: %w", errors.New("handshake")), want: "handshake"},
		{name: "nothing", want: "no answer"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := describe(tc.err); got != tc.want {
				t.Errorf("describe() = %q, want %q", got, tc.want)
			}
		})
	}
}
