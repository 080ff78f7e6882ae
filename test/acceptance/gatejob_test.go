package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/inspect"
)

// TestDrillAsksTheControllersHAProxy: a Job in the cluster gives the verdict of the
// binary that the controllers carry, good or bad, and leaves nothing behind.
func TestDrillAsksTheControllersHAProxy(t *testing.T) {
	s := newStage(t)
	if check := s.gateCheck(); check.Result != inspect.Passed {
		t.Errorf("of a checkpoint that runs it says %+v, want %s", check, inspect.Passed)
	}
	s.block()
	s.stopAll(controllerDeployment, controllerName)
	s.retain(s.earlierOutput())
	s.scale(controllerDeployment, 2)
	s.awaitLeader(nil)
	if check := s.gateCheck(); check.Reason != "GateRefused" || !strings.Contains(check.Message, "nbproc") {
		t.Errorf("of a checkpoint with a directive that is no more it says %+v, want GateRefused and the directive", check)
	}
	s.await("no job and no pod of one is left", func(ctx context.Context) error {
		jobs, err := s.core.BatchV1().Jobs(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := s.core.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=holdfast-gate"})
		if err == nil && len(jobs.Items)+len(pods.Items) > 0 {
			err = fmt.Errorf("%d jobs and %d pods", len(jobs.Items), len(pods.Items))
		}
		return err
	})
}

func (s *stage) gateCheck() inspect.Check {
	s.t.Helper()
	report := s.drill("--gate=cluster")
	for _, check := range report.Checks {
		if check.Name == "gate" {
			return check
		}
	}
	s.t.Fatalf("the drill did not come to the gate: %+v", report.Checks)
	return inspect.Check{}
}
