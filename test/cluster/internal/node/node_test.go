package node

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAddressesAreNotReusedAtOnce(t *testing.T) {
	a := newAddresses()
	first, err := a.take()
	if err != nil {
		t.Fatal(err)
	}
	if want := netip.MustParseAddr("10.244.0.10"); first != want {
		t.Errorf("first address %s, want %s", first, want)
	}
	a.release(first)
	second, err := a.take()
	if err != nil {
		t.Fatal(err)
	}
	if second == first {
		t.Errorf("address %s was handed out again at once", first)
	}
}

func TestAddressesEndWhenAllAreTaken(t *testing.T) {
	a := newAddresses()
	seen := map[netip.Addr]bool{}
	for {
		address, err := a.take()
		if errors.Is(err, errNoAddress) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("address %s was handed out twice", address)
		}
		seen[address] = true
	}
	freed := netip.MustParseAddr("10.244.7.7")
	a.release(freed)
	if got, err := a.take(); err != nil || got != freed {
		t.Errorf("took %s, %v, want the only free one, %s", got, err, freed)
	}
}

func TestRestarts(t *testing.T) {
	tests := []struct {
		name   string
		role   role
		policy corev1.RestartPolicy
		o      outcome
		want   bool
	}{
		{name: "Always restarts a success", policy: corev1.RestartPolicyAlways, o: outcome{started: true}, want: true},
		{name: "OnFailure leaves a success alone", policy: corev1.RestartPolicyOnFailure, o: outcome{started: true}},
		{name: "OnFailure restarts a failure", policy: corev1.RestartPolicyOnFailure, o: outcome{started: true, code: 1}, want: true},
		{name: "Never leaves a failure alone", policy: corev1.RestartPolicyNever, o: outcome{started: true, code: 1}},
		{name: "a container that could not be made is tried again whatever the policy", policy: corev1.RestartPolicyNever, want: true},
		{name: "an init container that succeeded is done even under Always", role: roleInit, policy: corev1.RestartPolicyAlways, o: outcome{started: true}},
		{name: "an init container that failed is run again", role: roleInit, policy: corev1.RestartPolicyAlways, o: outcome{started: true, code: 1}, want: true},
		{name: "a sidecar is restarted even under Never", role: roleSidecar, policy: corev1.RestartPolicyNever, o: outcome{started: true}, want: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := restarts(tc.role, tc.policy, tc.o); got != tc.want {
				t.Errorf("restarts: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	one, two, yes := int64(1), int64(2), true
	tests := []struct {
		name string
		pod  *corev1.PodSecurityContext
		own  *corev1.SecurityContext
		want ids
	}{
		{name: "nobody says anything: root"},
		{name: "the pod's user", pod: &corev1.PodSecurityContext{RunAsUser: &one, RunAsGroup: &two}, want: ids{1, 2}},
		{name: "the container's user wins", pod: &corev1.PodSecurityContext{RunAsUser: &one}, own: &corev1.SecurityContext{RunAsUser: &two}, want: ids{2, 0}},
		{name: "not root, but nobody says who", own: &corev1.SecurityContext{RunAsNonRoot: &yes}, want: ids{nonRootID, nonRootID}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := identity(tc.pod, tc.own); got != tc.want {
				t.Errorf("identity %+v, want %+v", got, tc.want)
			}
		})
	}
}

var (
	waiting  = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	running  = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	finished = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	crashed  = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
)

func view(r role, state corev1.ContainerState, ready bool) containerView {
	return containerView{role: r, status: corev1.ContainerStatus{State: state, Ready: ready, Started: &ready}}
}

func restarting(last corev1.ContainerState) containerView {
	v := view(roleMain, waiting, false)
	v.status.LastTerminationState = last
	return v
}

func TestCompute(t *testing.T) {
	type result struct {
		Phase corev1.PodPhase
		Ready bool
	}
	now := metav1.NewTime(time.Unix(1000, 0))
	tests := []struct {
		name       string
		policy     corev1.RestartPolicy
		gates      []corev1.PodReadinessGate
		deleted    bool
		containers []containerView
		want       result
	}{
		{name: "nothing started yet", containers: []containerView{view(roleMain, waiting, false)}, want: result{corev1.PodPending, false}},
		{name: "an init container runs", containers: []containerView{view(roleInit, running, false), view(roleMain, waiting, false)}, want: result{corev1.PodPending, false}},
		{name: "all run, one is not ready", containers: []containerView{view(roleMain, running, true), view(roleMain, running, false)}, want: result{corev1.PodRunning, false}},
		{name: "all are ready", containers: []containerView{view(roleInit, finished, true), view(roleMain, running, true)}, want: result{corev1.PodRunning, true}},
		{name: "ready, but a gate is closed", gates: []corev1.PodReadinessGate{{ConditionType: "example.com/open"}}, containers: []containerView{view(roleMain, running, true)}, want: result{corev1.PodRunning, false}},
		{name: "a crashed container waits for its restart", containers: []containerView{restarting(crashed)}, want: result{corev1.PodRunning, false}},
		{name: "a job that ended well", policy: corev1.RestartPolicyNever, containers: []containerView{view(roleMain, finished, false)}, want: result{corev1.PodSucceeded, false}},
		{name: "a job that failed", policy: corev1.RestartPolicyNever, containers: []containerView{view(roleMain, crashed, false)}, want: result{corev1.PodFailed, false}},
		{name: "an init container that failed for good", policy: corev1.RestartPolicyNever, containers: []containerView{view(roleInit, crashed, false), view(roleMain, waiting, false)}, want: result{corev1.PodFailed, false}},
		{name: "a sidecar that is not up keeps the pod pending", containers: []containerView{view(roleSidecar, running, false), view(roleMain, waiting, false)}, want: result{corev1.PodPending, false}},
		{name: "a deleted pod whose containers were killed", deleted: true, containers: []containerView{view(roleMain, crashed, false)}, want: result{corev1.PodFailed, false}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.policy == "" {
				tc.policy = corev1.RestartPolicyAlways
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tc.policy, ReadinessGates: tc.gates}}
			if tc.deleted {
				pod.DeletionTimestamp = &now
			}
			status := compute(snapshot{pod: pod, ip: "10.244.0.9", containers: tc.containers, now: now}, corev1.PodStatus{})
			got := result{Phase: status.Phase}
			for _, condition := range status.Conditions {
				if condition.Type == corev1.PodReady {
					got.Ready = condition.Status == corev1.ConditionTrue
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionsKeepTheirTimesAndTheirNeighbours(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	foreign := corev1.PodCondition{Type: "example.com/open", Status: corev1.ConditionTrue, LastTransitionTime: before}
	old := corev1.PodStatus{Conditions: []corev1.PodCondition{
		foreign,
		{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: before},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: before},
	}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}}
	status := compute(snapshot{pod: pod, ip: "10.244.0.9", containers: []containerView{view(roleMain, running, true)}, now: now}, old)
	times := map[corev1.PodConditionType]int64{}
	for _, condition := range status.Conditions {
		times[condition.Type] = condition.LastTransitionTime.Unix()
	}
	want := map[corev1.PodConditionType]int64{
		"example.com/open":               1000,
		corev1.PodScheduled:              1000,
		corev1.ContainersReady:           2000,
		corev1.PodReady:                  2000,
		corev1.PodInitialized:            2000,
		corev1.PodReadyToStartContainers: 2000,
	}
	if diff := cmp.Diff(want, times); diff != "" {
		t.Errorf("transition times (-want +got):\n%s", diff)
	}
}
