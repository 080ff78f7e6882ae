package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// TestEveryRefusalReasonOnTheCluster provokes the reasons for which recovery
// starts no pod, one after the other, in one outage. A checkpoint that HAProxy
// refuses stands in the way all the time, so that nothing is started between
// them: what is stored and what pods say is judged before it. Then a valid one
// takes its place and the starts themselves fail.
//
// The drill talks to no pod and has rights of its own, so it finds by itself the
// reasons whose row names a check of it. Of all the others it repeats what the
// controller told.
//
// What cannot be provoked here is shown by unit tests of pkg/controller/recovery:
//   - IntentSuperseded and PodMoved need a change in the instant between a check
//     and the apply: TestNobodyIsStarted.
//   - PodUnverified, PodContradictory and PodFilesDiffer need an agent that
//     breaks its own contract: TestThePodThatDoesNotAgreeIsRefusedByName.
func TestEveryRefusalReasonOnTheCluster(t *testing.T) {
	s := newStage(t)
	r := &refusals{stage: s, first: s.renderNow()}
	s.block()
	s.stopAll(controllerDeployment, controllerName)
	s.stopAll(proxyDeployment, proxyName)
	s.slowReloads()
	r.refused = s.earlierOutput()
	s.retain(r.refused)
	s.scale(controllerDeployment, 2)
	s.scale(proxyDeployment, 2)
	r.waiting, r.victim = r.twoProxies()

	began := time.Now()
	for _, row := range refusalRows {
		r.provoke(row)
	}
	r.gateUnknown()
	r.startsFail()
	note(t, "every reason that can be provoked", time.Since(began))
}

// refusals is one outage in which nothing can be started.
type refusals struct {
	*stage
	// first is an output that HAProxy accepts, and refused is the checkpoint.
	first, refused *checkpoint.Output
	// waiting stays a bootstrap pod; victim is what pods' reasons are about.
	waiting, victim *corev1.Pod
}

// provoke wants the event and the drill to name what is at fault.
func (r *refusals) provoke(row refusalRow) {
	r.t.Helper()
	began := time.Now()
	names, undo := row.provoke(r)
	r.told(row.reason, names...)
	note(r.t, row.reason+": provoked → told", time.Since(began))
	if row.check != "" {
		name, reason := strings.ReplaceAll(row.check, "VICTIM", r.victim.Name), row.reason
		if row.drillReason != "" {
			reason = row.drillReason
		}
		check := r.awaitCheck(name, reason, row.args...)
		r.t.Logf("drill: %s: %s %s: %s. %s", check.Name, check.Result, check.Reason, check.Message, check.Do)
	}
	if undo != nil {
		undo()
	}
	r.wantUntouchedBootstrap(r.waiting)
}

// told waits until an event gives this reason and these names, and the drill
// repeats that one as the controller's last word.
func (r *refusals) told(reason string, names ...string) {
	r.t.Helper()
	text := r.event(eventNoUse, append(names, " "+reason+": ")...)
	r.t.Logf("event: %s", text)
	r.await("the drill repeats it", func(context.Context) error {
		for _, check := range r.drill().Checks {
			if check.Name != "controller" {
				continue
			}
			missing := slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(check.Message, name) })
			if check.Reason != reason || missing {
				return fmt.Errorf("it repeats %+v, want %s and %q", check, reason, names)
			}
			return nil
		}
		return errors.New("it repeats nothing")
	})
}

// gateUnknown takes from all controllers where they lay outputs out for HAProxy,
// and makes one lead that has not asked HAProxy yet.
func (r *refusals) gateUnknown() {
	r.t.Helper()
	leader := r.awaitLeader(nil)
	r.chmodTmp(0o555)
	// Its container starts anew, beside the same folder.
	r.signal(leader, "holdfast-controller", syscall.SIGKILL)
	r.told("GateUnknown", r.object(), "permission denied")
	r.chmodTmp(0o777)
	r.wantUntouchedBootstrap(r.waiting)
}

func (r *refusals) chmodTmp(mode os.FileMode) {
	r.t.Helper()
	for _, pod := range r.pods.living(controllerName) {
		if err := os.Chmod(fmt.Sprintf("/proc/%d/root/tmp", r.processes(pod, "holdfast-controller")[0]), mode); err != nil {
			r.t.Fatal(err)
		}
	}
}

// name is the checkpoint's, and object what messages call it.
func (r *refusals) name() string {
	for _, pointer := range r.publication().Pointers {
		if pointer.Checksum == r.refused.Checksum() {
			return pointer.Name
		}
	}
	r.t.Fatal("no pointer names the checkpoint")
	return ""
}

func (r *refusals) object() string { return v1alpha1.KindCfg + "/" + r.name() }

// twoProxies waits for two bootstrap pods.
func (r *refusals) twoProxies() (one, two *corev1.Pod) {
	r.t.Helper()
	r.await("there are two proxies", func(context.Context) error {
		if n := len(r.pods.living(proxyName)); n != 2 {
			return fmt.Errorf("%d proxies, want 2", n)
		}
		return nil
	})
	pods := r.pods.living(proxyName)
	return r.awaitBootstrap(pods[0]), r.awaitBootstrap(pods[1])
}

// awaitBootstrap waits until the pod's agent answers, and returns the pod with
// its address.
func (s *stage) awaitBootstrap(pod *corev1.Pod) *corev1.Pod {
	s.t.Helper()
	s.await("pod "+pod.Name+" is a bootstrap pod", func(ctx context.Context) error {
		for _, now := range s.pods.living(proxyName) {
			if now.UID == pod.UID {
				pod = now
			}
		}
		state, err := s.state(ctx, pod)
		if err == nil && !state.IsBootstrap() {
			err = fmt.Errorf("its phase is %s", state.Phase)
		}
		return err
	})
	return pod
}

// replaceVictim lets a fresh bootstrap pod take its place.
func (r *refusals) replaceVictim() {
	r.t.Helper()
	before := r.pods.living(proxyName)
	r.deletePod(r.victim, new(int64))
	r.victim = r.awaitBootstrap(r.newProxy(before))
}

// slowReloads makes agents put off a second reload for longer than the test looks.
func (s *stage) slowReloads() {
	s.t.Helper()
	patch := `[{"op": "add", "path": "/spec/template/spec/containers/1/args/-", "value": "--min-reload-interval=30s"}]`
	_, err := s.core.AppsV1().Deployments(s.namespace).Patch(s.t.Context(), proxyDeployment, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// give applies an output to a pod as a controller of that template would.
func (r *refusals) give(pod *corev1.Pod, output *checkpoint.Output, templateUID string) {
	r.t.Helper()
	target := r.target(pod, templateUID)
	var at *api.State
	// A reload that is put off is dropped when a later term is heard of.
	r.await("pod "+pod.Name+" has heard of the term", func(ctx context.Context) (err error) {
		if at, err = r.agents.State(ctx, target, stateWithPlan); err == nil && at.EpochFloor == 0 {
			err = errors.New("it was told no epoch")
		}
		return err
	})
	request, err := applyOf(output, at)
	if err != nil {
		r.t.Fatal(err)
	}
	result, err := r.agents.Apply(r.t.Context(), target, request)
	if err != nil || !result.OK {
		r.t.Fatalf("applying to pod %s: %v, %+v", pod.Name, err, result)
	}
}

func (r *refusals) read(path string) []byte {
	r.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return content
}

func (r *refusals) write(path string, content []byte) {
	r.t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// wantRecoveryHealth wants the leader's health to say this of recovery.
func (s *stage) wantRecoveryHealth(ctx context.Context, says string) error {
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	text, err := s.controller(ctx, leader, "/healthz")
	if err != nil {
		return err
	}
	var health struct {
		Components map[string]struct{ Error string }
	}
	if err := json.Unmarshal([]byte(text), &health); err != nil {
		return err
	}
	if found := health.Components["recovery"].Error; !strings.Contains(found, says) {
		return fmt.Errorf("/healthz says %q of recovery, want %q", found, says)
	}
	return nil
}
