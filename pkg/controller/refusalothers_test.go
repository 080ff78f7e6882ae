package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/controller/election"
)

func TestJudgePods(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, pairs ...string) *corev1.Pod {
		labels := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			labels[pairs[i]] = pairs[i+1]
		}
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: name, Labels: labels},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	tests := []struct {
		name string
		pods []*corev1.Pod
		want string
	}{
		{name: "no pods"},
		{
			name: "the project's own, and a pod of anybody",
			pods: []*corev1.Pod{
				pod("holdfast-controller-1", corev1.PodRunning, labelName, "holdfast-controller"),
				pod("other", corev1.PodRunning, labelName, "other", labelComponent, "controller", labelChart, "hapticity-1.0.0"),
			},
		},
		{
			name: "a controller of the chart",
			pods: []*corev1.Pod{pod("h-0", corev1.PodRunning, labelName, "haptic", labelComponent, "controller", labelChart, "haptic-0.7.0")},
			want: "pod edge/h-0 is a controller of HAPTIC by its labels helm.sh/chart=haptic-0.7.0 and app.kubernetes.io/component=controller",
		},
		{
			name: "a controller of the chart under another name, that is not started yet",
			pods: []*corev1.Pod{pod("x", corev1.PodPending, labelName, "ingress", labelComponent, "controller", labelChart, "haptic-0.5.1")},
			want: "pod edge/x is a controller of HAPTIC by its labels helm.sh/chart=haptic-0.5.1 and app.kubernetes.io/component=controller",
		},
		{
			name: "a controller without the chart's label",
			pods: []*corev1.Pod{pod("b", corev1.PodRunning, labelName, "haptic", labelComponent, "controller")},
			want: "pod edge/b is a controller of HAPTIC by its labels app.kubernetes.io/name=haptic and app.kubernetes.io/component=controller",
		},
		{
			name: "proxies of HAPTIC are nobody's controllers",
			pods: []*corev1.Pod{pod("p", corev1.PodRunning, labelName, "haptic", labelComponent, "loadbalancer", labelChart, "haptic-0.7.0")},
		},
		{
			name: "one that has ended",
			pods: []*corev1.Pod{pod("e", corev1.PodFailed, labelName, "haptic", labelComponent, "controller", labelChart, "haptic-0.7.0")},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			found := ""
			var refused *RefusalError
			if errors.As(judgePods(tc.pods), &refused) {
				found = refused.Found
			}
			if diff := cmp.Diff(tc.want, found); diff != "" {
				t.Errorf("what was found (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeHolder(t *testing.T) {
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	lease := func(holder string, renewed time.Duration) *coordinationv1.Lease {
		at, seconds := metav1.NewMicroTime(now.Add(-renewed)), int32(60)
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "haptic-leader"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds},
		}
	}
	tests := []struct {
		name  string
		lease *coordinationv1.Lease
		want  string
	}{
		{
			name: "held by a pod's name", lease: lease("haptic-controller-7d9f4-x2b", 5*time.Second),
			want: `the leader-election Lease edge/haptic-leader is held until 2026-02-03T04:06:01Z by "haptic-controller-7d9f4-x2b", which is no controller of this project`,
		},
		{name: "held by a pod's name until now", lease: lease("haptic-controller-7d9f4-x2b", 60*time.Second)},
		{name: "held by a controller of the project", lease: lease(election.NewIdentity("holdfast-controller-1"), time.Second)},
		{name: "released", lease: lease("", time.Second)},
		{name: "never held", lease: &coordinationv1.Lease{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			found := ""
			var refused *RefusalError
			if errors.As(judgeHolder(tc.lease, now), &refused) {
				found = refused.Found
			}
			if diff := cmp.Diff(tc.want, found); diff != "" {
				t.Errorf("what was found (-want +got):\n%s", diff)
			}
		})
	}
}
