package acceptance

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/holdfast-project/holdfast/pkg/inspect"
	"github.com/holdfast-project/holdfast/test/owncluster"
)

// TestNodeLostDuringOutage loses a node during an outage: of its proxies one is
// Terminating and stays so, since nobody there confirms, and one is Running
// as far as the API knows. The first must not matter. The second keeps recovery
// from starting pods, and is named with what to do; doing that helps.
//
// The node is an object that no kubelet serves, and so are its pods: that is all
// the rest of a cluster sees of a node that lost its power.
func TestNodeLostDuringOutage(t *testing.T) {
	s := newStage(t)
	old := s.pods.living(proxyName)
	s.block()
	s.restartStandby()
	node := s.lostNode()
	silent := s.lostProxy(node, "proxy-on-lost-node")
	s.neverAnswer(silent)
	leaving := s.lostProxy(node, "proxy-leaving-lost-node")
	grace := int64(1)
	s.deletePod(leaving, &grace)
	before := s.awaitLeader(nil)
	lost := time.Now()
	s.deletePod(before, new(int64))
	s.scale(proxyDeployment, 3)
	added := s.newProxy(slices.Concat(old, []*corev1.Pod{silent, leaving}))

	advice := fmt.Sprintf("kubectl delete pod %s --force --grace-period=0", silent.Name)
	s.refused(added, "PodUnreachable", "pod "+silent.Name, "If its node is dead, delete it", advice)
	note(t, "leader killed → refusal told twice", time.Since(lost))
	check := s.awaitCheck("pod "+silent.Name, "PodUnreachable")
	command := fmt.Sprintf("kubectl delete pod -n %s %s --force --grace-period=0", s.namespace, silent.Name)
	if !strings.Contains(check.Do, command) || !strings.Contains(check.Message, node) {
		t.Errorf("the drill says %q and %q, want it to name node %s and %q", check.Message, check.Do, node, command)
	}
	for _, c := range s.drill().Checks {
		if strings.Contains(c.Name, leaving.Name) {
			t.Errorf("the drill finds %+v, and that pod is past its grace", c)
		}
	}

	// What an operator copies from it.
	began := time.Now()
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	note(t, "dead pod deleted → replacement Ready", s.awaitServing(added, firstRelease).Sub(began))
	s.event(eventActive, s.intendedChecksum(), leaving.Name+" (it is past its deletion grace period)")
	if left := s.pods.named(proxyName); !slices.ContainsFunc(left, func(p *corev1.Pod) bool { return p.UID == leaving.UID }) {
		t.Error("the leaving pod is gone, so that nothing was shown of it")
	}

	// Its node is drained away: the last pod of it goes, and nothing happens.
	s.deletePod(leaving, new(int64))
	s.scale(proxyDeployment, 4)
	fourth := s.newProxy(slices.Concat(old, []*corev1.Pod{added, leaving}))
	created, _ := s.pods.times(fourth.UID)
	note(t, "another replacement created → Ready", s.awaitServing(fourth, firstRelease).Sub(created))
}

// lostNode is a node that nobody serves.
func (s *stage) lostNode() string {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost-" + s.namespace}}
	if _, err := s.core.CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.core.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
			s.t.Errorf("deleting the lost node: %v", err)
		}
		// Nobody else ends what is bound to it.
		err := s.core.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name})
		if err != nil {
			s.t.Errorf("deleting the lost node's pods: %v", err)
		}
	})
	// The cluster's own controllers write to every node.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := s.core.CoreV1().Nodes().Get(s.t.Context(), node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
		}}
		_, err = s.core.CoreV1().Nodes().UpdateStatus(s.t.Context(), found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return node.Name
}

// lostProxy is a proxy pod as the lost node's kubelet left it: Running, with an
// address.
func (s *stage) lostProxy(node, name string) *corev1.Pod {
	s.t.Helper()
	pods := s.core.CoreV1().Pods(s.namespace)
	pod, err := pods.Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": proxyName}},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "haproxy", Image: "haproxy", Command: []string{"haproxy"}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	// Above those that the node gives out, and another one for every pod.
	var random [2]byte
	if _, err := hex.Decode(random[:], []byte(pod.UID)[:4]); err != nil {
		s.t.Fatal(err)
	}
	address := fmt.Sprintf("10.244.%d.%d", 200+random[0]%50, 1+random[1]%250)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
	}
	if pod, err = pods.UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// neverAnswer takes connections to a pod's agent and is silent, as a network is
// that drops what goes to a dead node.
func (s *stage) neverAnswer(pod *corev1.Pod) {
	s.t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(pod.Status.PodIP, "9444"))
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			held = append(held, conn)
		}
		for _, conn := range held {
			_ = conn.Close() // nobody waits for it
		}
	}()
	s.t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
}

// drill asks the plugin, as an operator does.
func (s *stage) drill(args ...string) *inspect.DrillReport {
	s.t.Helper()
	out, err := s.retained(append([]string{"drill", templateName, "-o", "json"}, args...)...)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 2) {
		s.t.Fatalf("kubectl retained drill: %v: %s", err, out)
	}
	report := &inspect.DrillReport{}
	if err := json.Unmarshal(out, report); err != nil {
		s.t.Fatalf("kubectl retained drill answers %q: %v", out, err)
	}
	return report
}

// retained runs a command of the plugin.
func (s *stage) retained(args ...string) ([]byte, error) {
	cmd := exec.CommandContext(s.t.Context(), owncluster.Binary("kubectl-retained"), append(args, "-n", s.namespace)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		out = []byte(problems.String())
	}
	return out, err
}

// awaitCheck waits until the drill finds that, and returns it.
func (s *stage) awaitCheck(name, reason string, args ...string) (found inspect.Check) {
	s.t.Helper()
	s.await("the drill finds "+reason+" at "+name, func(context.Context) error {
		report := s.drill(args...)
		for _, check := range report.Checks {
			if check.Name == name && check.Reason == reason {
				found = check
				return nil
			}
		}
		return fmt.Errorf("it finds %+v", report.Checks)
	})
	return found
}
