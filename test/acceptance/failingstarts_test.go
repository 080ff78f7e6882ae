package acceptance

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// startsFail has starts from a valid checkpoint fail, each for a reason of its own.
// While its pod is made ready for that, an intent of nothing keeps it from a start.
func (r *refusals) startsFail() {
	r.t.Helper()
	r.keepOnly(r.waiting)
	occupied, err := net.Listen("tcp", net.JoinHostPort(r.waiting.Status.PodIP, "8443"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.retain(r.first)
	r.told("PodRejected", "pod "+r.waiting.Name, r.first.Checksum())
	r.wantUntouchedBootstrap(r.waiting)
	began := time.Now()
	if err := occupied.Close(); err != nil {
		r.t.Fatal(err)
	}
	note(r.t, "PodRejected: cause gone → Ready, held for a minute", r.awaitServing(r.waiting, firstRelease).Sub(began))

	second, start := r.another(2)
	sets := filepath.Join(r.folder(second), "sets")
	if err := os.Chmod(sets, 0o555); err != nil {
		r.t.Fatal(err)
	}
	start()
	r.told("PodNotStarted", "pod "+second.Name, r.first.Checksum())
	r.wantUntouchedBootstrap(second)
	began = time.Now()
	if err := os.Chmod(sets, 0o777); err != nil {
		r.t.Fatal(err)
	}
	note(r.t, "PodNotStarted: cause gone → Ready", r.awaitServing(second, firstRelease).Sub(began))

	third, start := r.another(3)
	for epoch := uint64(900_000); epoch < 2*api.MaxEpochJump; epoch += 900_000 {
		if _, err := r.agents.Announce(r.t.Context(), r.target(third, string(r.template.UID)), epoch); err != nil {
			r.t.Fatal(err)
		}
	}
	start()
	r.told("EpochOutranked", "pod "+third.Name, "1800000", r.first.Checksum())
	r.wantUntouchedBootstrap(third)
}

// keepOnly scales to that one proxy.
func (r *refusals) keepOnly(pod *corev1.Pod) {
	r.t.Helper()
	cost := `{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"}}}`
	_, err := r.core.CoreV1().Pods(r.namespace).Patch(r.t.Context(), pod.Name, types.MergePatchType, []byte(cost), metav1.PatchOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.scale(proxyDeployment, 1)
	r.await("only pod "+pod.Name+" is left", func(context.Context) error {
		left := r.pods.named(proxyName)
		if len(left) != 1 || left[0].UID != pod.UID {
			return fmt.Errorf("%d pods", len(left))
		}
		return nil
	})
}

// another is one more bootstrap pod, which start lets be started.
func (r *refusals) another(replicas int32) (pod *corev1.Pod, start func()) {
	r.t.Helper()
	before := r.pods.living(proxyName)
	start = r.editIntent(func(i *fencing.Intent) { i.PlanID, i.Checksum = "", "" })
	r.scale(proxyDeployment, replicas)
	return r.awaitBootstrap(r.newProxy(before)), start
}
