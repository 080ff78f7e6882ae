package acceptance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

func TestRetainedConfigurationRecovery(t *testing.T) {
	s := newStage(t)
	receipt := s.takeover(nil)
	s.repair(firstRelease, 3)

	// A second outage meets controllers that never saw a good render, and a
	// fleet without the pod that acknowledged the checkpoint.
	s.block()
	published := s.publication()
	s.restartControllers(func() {})
	proxies := s.pods.living(proxyName)
	var others []*corev1.Pod
	for _, pod := range proxies {
		if pod.Name == receipt.PodName {
			s.deletePod(pod, nil)
		} else {
			others = append(others, pod)
		}
	}
	if len(others) != 2 {
		t.Fatalf("%d of %d proxies are not the receipt's %s, want 2", len(others), len(proxies), receipt.PodName)
	}
	untouched := s.accounts(others)
	leader := s.awaitLeader(nil)
	s.checkRecovered(s.newProxy(proxies), leader)
	s.checkUntouched(others, untouched, published)
	s.checkReceipt(receipt)
	s.repair("v2", 3)
}

func TestRetainedConfigurationSuddenFailover(t *testing.T) {
	s := newStage(t)
	s.takeover(new(int64))
	s.repair(firstRelease, 3)
}

// takeover breaks the source, lets a cold standby take the leader's place, and
// wants a third proxy to start from the checkpoint. It returns the receipt.
func (s *stage) takeover(grace *int64) v1alpha1.PodDeploymentStatus {
	s.t.Helper()
	receipt := s.awaitCheckpoint().Status.DeployedToPods[0]
	old := s.pods.living(proxyName)
	s.block()
	s.restartStandby()
	published, untouched := s.publication(), s.accounts(old)
	before := s.awaitLeader(nil)

	deleted := time.Now()
	s.deletePod(before, grace)
	s.scale(proxyDeployment, 3)
	added := s.newProxy(old)
	leader := s.awaitLeader(before)
	note(s.t, "leader deleted → next leader seen", time.Since(deleted))
	ready := s.checkRecovered(added, leader)
	note(s.t, "leader deleted → replacement Ready", ready.Sub(deleted))
	s.checkUntouched(old, untouched, published)
	s.checkReceipt(receipt)
	return receipt
}

// checkRecovered wants a pod to have been started from the intended checkpoint,
// and every place where an operator looks to say so.
func (s *stage) checkRecovered(added, leader *corev1.Pod) (ready time.Time) {
	s.t.Helper()
	ready = s.awaitServing(added, firstRelease)
	s.noteSteps(leader, added)

	intent, err := s.intent(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.awaitAcknowledged(added, intent)
	s.event(eventActive, intent.Checksum, s.source.cause())
	s.await("the leader and the lease say that a checkpoint is in use", func(ctx context.Context) error {
		return errors.Join(s.wantSample(ctx, leader, gauge+" 1"), s.wantActive(ctx, intent.Checksum), s.wantRenderError(ctx, leader))
	})
	return ready
}

// awaitAcknowledged waits until the pod's agent has proven the intended plan. The
// new worker serves a moment before that.
func (s *stage) awaitAcknowledged(pod *corev1.Pod, intent fencing.Intent) {
	s.t.Helper()
	s.await("the agent of "+pod.Name+" has proven the checkpoint", func(ctx context.Context) error {
		state, err := s.state(ctx, pod)
		if err == nil && state.RunningPlanID != intent.PlanID {
			err = fmt.Errorf("it runs plan %q, want the intended %q", state.RunningPlanID, intent.PlanID)
		}
		return err
	})
	_, ready := s.pods.times(pod.UID)
	note(s.t, "replacement Ready → plan proven by its agent", time.Since(ready))
}

// noteSteps times the way from a leader's first failed render to a Ready pod.
func (s *stage) noteSteps(leader, added *corev1.Pod) {
	s.t.Helper()
	created, ready := s.pods.times(added.UID)
	note(s.t, "replacement created → Ready", ready.Sub(created))
	failed := s.logged(leader, "controller", `"Rendered no valid output`)
	answers := s.logged(added, "agent", `"Started" phase="bootstrap"`)
	used := s.logged(leader, "controller", `"Used a checkpoint to start pods"`)
	note(s.t, "first render failure → replacement Ready", ready.Sub(failed))
	// Nothing can happen before the pod's own agent is up.
	began := failed
	if answers.After(failed) {
		began = answers
	}
	note(s.t, "render failed and agent there → replacement Ready", ready.Sub(began))
	note(s.t, "  of it until the checkpoint was judged good", used.Sub(began))
	note(s.t, "  of it from there until Ready", ready.Sub(used))
}

func (s *stage) wantRenderError(ctx context.Context, leader *corev1.Pod) error {
	text, err := s.renderError(ctx, leader)
	if err == nil && !strings.Contains(text, s.source.cause()) {
		err = fmt.Errorf("/healthz says %q of rendering, want it to say %q", text, s.source.cause())
	}
	return err
}

// checkUntouched wants recovery to have given configured pods nothing, and to
// have published nothing.
func (s *stage) checkUntouched(pods []*corev1.Pod, accounts map[string]account, published publication) {
	s.t.Helper()
	if diff := cmp.Diff(accounts, s.accounts(pods)); diff != "" {
		s.t.Errorf("configured pods were touched (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(published, s.publication()); diff != "" {
		s.t.Errorf("something was published (-before +after):\n%s", diff)
	}
}

// checkReceipt wants the intended checkpoint to carry this very receipt.
func (s *stage) checkReceipt(want v1alpha1.PodDeploymentStatus) {
	s.t.Helper()
	cfg, err := s.intended(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff([]v1alpha1.PodDeploymentStatus{want}, cfg.Status.DeployedToPods); diff != "" {
		s.t.Errorf("receipt of checkpoint %s (-want +got):\n%s", cfg.Name, diff)
	}
}

// repair makes rendering succeed, and wants the return to normal: every pod on
// the current output, and nothing that still speaks of a checkpoint. An output
// that is the checkpoint's own reloads no pod.
func (s *stage) repair(release string, replicas int) {
	s.t.Helper()
	leader := s.awaitLeader(nil)
	proxies := s.pods.living(proxyName)
	before := withoutNoop(s.accounts(proxies))
	if release != firstRelease {
		s.setInput("release", release)
	}
	began := time.Now()
	s.source.repair()
	s.await("the leader and the lease no longer say that a checkpoint is in use", func(ctx context.Context) error {
		text, err := s.renderError(ctx, leader)
		if err == nil && text != "" {
			err = fmt.Errorf("/healthz still says %q of rendering", text)
		}
		return errors.Join(err, s.wantSample(ctx, leader, gauge+" 0"), s.wantActive(ctx, ""))
	})
	note(s.t, "repaired → gauge and mark gone", time.Since(began))
	s.awaitRelease(release, replicas)
	s.settle()
	if release == firstRelease {
		if diff := cmp.Diff(before, withoutNoop(s.accounts(proxies))); diff != "" {
			s.t.Errorf("the output did not change and pods were touched (-before +after):\n%s", diff)
		}
	}
}

// wantAllOn wants every pod's worker to run the intended plan.
func (s *stage) wantAllOn(ctx context.Context, checksum string, pods []*corev1.Pod) error {
	intent, err := s.intent(ctx)
	if err != nil {
		return err
	}
	if intent.Checksum != checksum {
		return fmt.Errorf("the intent names %s, want %s", intent.Checksum, checksum)
	}
	for _, pod := range pods {
		state, err := s.state(ctx, pod)
		if err != nil {
			return err
		}
		if state.AppliedPlanID != intent.PlanID || state.RunningPlanID != intent.PlanID && state.WorkerOpsPlanID != intent.PlanID {
			return fmt.Errorf("pod %s applied %q and runs %q, want %q", pod.Name, state.AppliedPlanID, state.RunningPlanID, intent.PlanID)
		}
	}
	return nil
}
