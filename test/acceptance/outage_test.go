package acceptance

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// endpoint makes an endpoint of the template's backend an input.
const endpoint = `[{"op": "add", "path": "/spec/templateSnippets", "value": {"endpoint": {"template": ` +
	`"{{- $inputs := first (resources \"inputs\") -}}{{ index $inputs.data \"endpoint\" | default \"192.0.2.1\" }}"}}}]`

// TestP1OutageOfTheSameLeader goes through an outage that begins under a leader
// with an output of its own: new pods are started from that one. Then the leader
// is replaced, HAProxy is killed in a configured pod, and recovery goes on. Once
// rendering is repaired, recovered pods are served like all others.
func TestP1OutageOfTheSameLeader(t *testing.T) {
	s := newStage(t, endpoint)
	s.editConfig(func(text string) string { return withEndpoint(t, text) })
	s.setInput("release", "v2")
	s.awaitRelease("v2", 2)
	s.settle()

	old := s.pods.living(proxyName)
	leader := s.awaitLeader(nil)
	published, untouched := s.publication(), withoutNoop(s.accounts(old))
	began := time.Now()
	restore := s.editConfig(func(text string) string { return text + "{{ .noSuchValue }}\n" })
	s.awaitTold(renderFailure{kind: "outage", reason: "RenderFailed", names: []string{"noSuchValue"}})
	s.scale(proxyDeployment, 3)
	third := s.newProxy(old)
	ready := s.awaitServing(third, "v2")
	note(t, "render broken → third proxy Ready, same leader", ready.Sub(began))
	if now := s.awaitLeader(nil); now.UID != leader.UID {
		t.Fatalf("%s leads, want %s still", now.Name, leader.Name)
	}
	// The term's own output is no checkpoint.
	if err := s.wantSample(t.Context(), leader, gauge+" 0"); err != nil {
		t.Error(err)
	}
	s.awaitAllOnIntent()
	if diff := cmp.Diff(untouched, withoutNoop(s.accounts(old))); diff != "" {
		t.Errorf("configured pods were touched (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(published.Pointers, s.publication().Pointers); diff != "" {
		t.Errorf("the pointers changed (-before +after):\n%s", diff)
	}

	s.deletePod(leader, new(int64))
	next := s.awaitLeader(leader)
	fourth := s.killDuringRecovery(next, old[0])
	recovered := []*corev1.Pod{third, fourth}
	s.event(eventActive, s.intendedChecksum(), "noSuchValue")

	began = time.Now()
	restore()
	s.awaitRelease("v2", 4)
	s.settle()
	s.await("nobody speaks of a checkpoint any more", func(ctx context.Context) error {
		if err := s.wantSample(ctx, next, gauge+" 0"); err != nil {
			return err
		}
		return s.wantActive(ctx, "")
	})
	note(t, "repaired → normal", time.Since(began))
	s.checkEndpointChange(recovered)
}

// killDuringRecovery scales to four under a leader that cannot render, and kills
// HAProxy in a configured pod: both pods must come to serve.
func (s *stage) killDuringRecovery(leader, victim *corev1.Pod) (fourth *corev1.Pod) {
	s.t.Helper()
	before := s.pods.living(proxyName)
	killed := time.Now()
	s.signal(victim, "haproxy", syscall.SIGKILL)
	s.scale(proxyDeployment, 4)
	fourth = s.newProxy(before)
	note(s.t, "HAProxy killed, scaled up → new proxy Ready", s.awaitServing(fourth, "v2").Sub(killed))
	took := s.await("the pod whose HAProxy was killed serves again", func(ctx context.Context) error { return s.serves(ctx, victim, "v2") })
	note(s.t, "  after it until the killed one serves", took)
	s.await("its HAProxy was started anew", func(context.Context) error {
		for _, pod := range s.pods.living(proxyName) {
			for _, container := range pod.Status.ContainerStatuses {
				if pod.UID == victim.UID && container.Name == "haproxy" && container.RestartCount == 1 && isReady(pod) {
					return nil
				}
			}
		}
		return fmt.Errorf("pod %s shows no restart of it, or is not Ready", victim.Name)
	})
	s.awaitAllOnIntent()
	if err := s.wantSample(s.t.Context(), leader, gauge+" 1"); err != nil {
		s.t.Error(err)
	}
	return fourth
}

func (s *stage) awaitAllOnIntent() {
	s.t.Helper()
	s.await("every proxy runs the intended output", func(ctx context.Context) error {
		intent, err := s.intent(ctx)
		if err != nil {
			return err
		}
		return s.wantAllOn(ctx, intent.Checksum, s.pods.living(proxyName))
	})
}

// checkEndpointChange moves an endpoint, and wants the recovered pods to take it
// as operations on the worker they have.
func (s *stage) checkEndpointChange(recovered []*corev1.Pod) {
	s.t.Helper()
	before, outputBefore := s.accounts(recovered), s.intendedChecksum()
	began := time.Now()
	s.setInput("endpoint", "192.0.2.2")
	s.await("the fleet was told of the new endpoint", func(ctx context.Context) error {
		intent, err := s.intent(ctx)
		if err == nil && intent.Checksum == outputBefore {
			err = fmt.Errorf("the intent still names %s", outputBefore)
		}
		if err != nil {
			return err
		}
		return s.wantAllOn(ctx, intent.Checksum, recovered)
	})
	note(s.t, "endpoint changed → recovered proxies have it", time.Since(began))
	after := s.accounts(recovered)
	for name, was := range before {
		is := after[name]
		if is.Applied == was.Applied {
			s.t.Errorf("pod %s: applied plan is still %s", name, is.Applied)
		}
		if is.WorkerStart != was.WorkerStart || is.WorkerPID != was.WorkerPID {
			s.t.Errorf("pod %s: worker %d of %d, want %d of %d still", name, is.WorkerPID, is.WorkerStart, was.WorkerPID, was.WorkerStart)
		}
		reloads := "holdfast_agent_reloads_total"
		if diff := cmp.Diff(samples(was.Applies, reloads), samples(is.Applies, reloads)); diff != "" {
			s.t.Errorf("pod %s: reload counters (-before +after):\n%s", name, diff)
		}
	}
}

// withEndpoint lets the template's backend take its address from the input.
func withEndpoint(t *testing.T, text string) string {
	t.Helper()
	const fixed = `"address" "192.0.2.1"`
	changed := strings.Replace(text, fixed, `"address" (include "endpoint" . | trim)`, 1)
	if changed == text {
		t.Fatalf("the template lacks %s", fixed)
	}
	return changed
}
