package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// account is what must not change of a pod that nobody touches.
type account struct {
	Applied, Running string
	WorkerStart      int64
	WorkerPID        int64
	// Applies are the agent's counters of applies and reloads.
	Applies string
}

// state asks a pod's agent, as a controller does.
func (s *stage) state(ctx context.Context, pod *corev1.Pod) (*api.State, error) {
	return s.agents.State(ctx, s.target(pod, string(s.template.UID)), client.StateOptions{WithoutPlan: true})
}

// accounts are those of the given pods, by name.
func (s *stage) accounts(pods []*corev1.Pod) map[string]account {
	s.t.Helper()
	found := make(map[string]account, len(pods))
	for _, pod := range pods {
		state, err := s.state(s.t.Context(), pod)
		if err != nil {
			s.t.Fatal(err)
		}
		metrics, err := get(s.t.Context(), http.DefaultClient, "http://"+net.JoinHostPort(pod.Status.PodIP, "9445")+"/metrics")
		if err != nil {
			s.t.Fatal(err)
		}
		found[pod.Name] = account{
			Applied: state.AppliedPlanID, Running: state.RunningPlanID,
			WorkerStart: state.HAProxy.WorkerStartTimeUnixMicros, WorkerPID: state.HAProxy.WorkerPID,
			Applies: samples(metrics, "holdfast_agent_apply_total", "holdfast_agent_apply_rejected_total", "holdfast_agent_reloads_total"),
		}
	}
	return found
}

// withoutNoop leaves out the count of applies that changed nothing.
func withoutNoop(accounts map[string]account) map[string]account {
	kept := make(map[string]account, len(accounts))
	for name, a := range accounts {
		var lines []string
		for line := range strings.Lines(a.Applies) {
			if !strings.Contains(line, `mode="noop"`) {
				lines = append(lines, line)
			}
		}
		a.Applies = strings.Join(lines, "")
		kept[name] = a
	}
	return kept
}

// samples are the lines of these metrics.
func samples(text string, names ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		for _, name := range names {
			if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
				kept.WriteString(line)
			}
		}
	}
	return kept.String()
}

func get(ctx context.Context, by *http.Client, url string) (string, error) {
	if by.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Host = hostX
	answer, err := by.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s: %s", url, answer.Status, body)
	}
	return string(body), err
}

// serves wants the pod to answer for host X, over TLS, with that release.
func (s *stage) serves(ctx context.Context, pod *corev1.Pod, release string) error {
	body, err := get(ctx, s.web, "https://"+net.JoinHostPort(pod.Status.PodIP, "8443")+"/")
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if want := "host X, release " + release; body != want {
		return fmt.Errorf("pod %s answers %q, want %q", pod.Name, body, want)
	}
	return nil
}

// awaitRelease waits until so many proxies are Ready and each serves the release.
func (s *stage) awaitRelease(release string, replicas int) time.Duration {
	s.t.Helper()
	return s.await("every proxy serves release "+release, func(ctx context.Context) error {
		if err := s.pods.allReady(proxyName, replicas); err != nil {
			return err
		}
		var problems []error
		for _, pod := range s.pods.named(proxyName) {
			problems = append(problems, s.serves(ctx, pod, release))
		}
		return errors.Join(problems...)
	})
}

// newProxy waits for the one pod that was not there before to exist.
func (s *stage) newProxy(before []*corev1.Pod) *corev1.Pod {
	s.t.Helper()
	var found *corev1.Pod
	s.await("there is a new proxy", func(context.Context) error {
		added := s.pods.added(proxyName, before)
		if len(added) != 1 || added[0].Status.PodIP == "" {
			return fmt.Errorf("%d new proxies, want one with an address", len(added))
		}
		found = added[0]
		return nil
	})
	return found
}

// awaitServing waits until this very pod is Ready and serves the release, and
// returns when it became Ready.
func (s *stage) awaitServing(pod *corev1.Pod, release string) time.Time {
	s.t.Helper()
	s.await("new proxy "+pod.Name+" is Ready and serves host X", func(ctx context.Context) error {
		if _, ready := s.pods.times(pod.UID); ready.IsZero() {
			return errors.New("it is not Ready")
		}
		return s.serves(ctx, pod, release)
	})
	_, ready := s.pods.times(pod.UID)
	return ready
}

// wantUntouchedBootstrap wants a pod that nobody gave anything: no plan, not Ready.
func (s *stage) wantUntouchedBootstrap(pod *corev1.Pod) {
	s.t.Helper()
	state, err := s.state(s.t.Context(), pod)
	if err != nil {
		s.t.Fatal(err)
	}
	if !state.IsBootstrap() || state.AppliedPlanID != "" {
		s.t.Errorf("pod %s: phase %s, applied plan %q, want a bootstrap pod without one", pod.Name, state.Phase, state.AppliedPlanID)
	}
	if _, ready := s.pods.times(pod.UID); !ready.IsZero() {
		s.t.Errorf("pod %s became Ready", pod.Name)
	}
}
