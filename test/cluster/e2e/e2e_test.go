package e2e

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: web}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 10
      initContainers:
      - name: prepare
        image: none
        command: [sh, -c, 'echo "prepared for $POD_IP" > /var/lib/e2e-data/note']
        env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
        volumeMounts: [{name: data, mountPath: /var/lib/e2e-data}]
      containers:
      - name: web
        image: none
        command: [%q]
        ports: [{name: web, containerPort: 8080}]
        env:
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: E2E_SERVE, value: "$(POD_IP):8080"}
        readinessProbe: {httpGet: {path: /ready, port: web}, periodSeconds: 1, failureThreshold: 1}
        livenessProbe: {httpGet: {path: /live, port: web}, periodSeconds: 1, failureThreshold: 1}
        volumeMounts:
        - {name: data, mountPath: /var/lib/e2e-data}
        - {name: settings, mountPath: /etc/e2e-settings}
      - name: neighbour
        image: none
        command: [sh, -c, 'trap "exit 0" TERM; while :; do sleep 0.1; done']
      volumes:
      - {name: data, emptyDir: {}}
      - {name: settings, configMap: {name: settings}}
`

// TestCluster goes through the life of one cluster; its steps build on each
// other.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	begin := time.Now()
	if output := c.up(); !strings.Contains(output, "ready") {
		t.Fatalf("up does not say that it is ready:\n%s", output)
	}
	t.Logf("usable after %s", time.Since(begin).Round(100*time.Millisecond))
	if output, code := c.devcluster("up"); code != 0 || !strings.Contains(output, "running already") {
		t.Errorf("a second up answered code %d:\n%s", code, output)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.apply(fmt.Sprintf(manifest, self))
	steps := []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"a Deployment becomes ready and its Service gets an EndpointSlice", deploymentReady},
		{"an init container's work is there and the pod knows its address", initDone},
		{"what a container writes stays in it", filesPrivate},
		{"a read-only root leaves volumes writable", readOnlyRoot},
		{"a pod without rights is refused by the API", tokenWorks},
		{"kubectl logs and exec reach the container", logsAndExec},
		{"scaling up and down is followed by pods and endpoints", scaling},
		{"a changed ConfigMap reaches the running container", liveUpdate},
		{"readiness lost is seen at once", readinessLost},
		{"a failed liveness probe restarts that container alone", livenessRestart},
		{"a deleted pod is asked to end and gone after its processes", gracefulStop},
		{"commands inside pass exit code and input", execInside},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, c) }) {
			t.Fatalf("events:\n%s", c.must("kubectl", "get", "events", "-A"))
		}
	}
	down(t, c)
}

func (c *cluster) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func isReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// endpoints answers the ready addresses of the Service.
func (c *cluster) endpoints(t *testing.T) []string {
	t.Helper()
	slices, err := c.client.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
				found = append(found, endpoint.Addresses...)
			}
		}
	}
	return found
}

func (c *cluster) settled(t *testing.T, replicas int) {
	t.Helper()
	c.eventually(t, fmt.Sprintf("%d ready pods and endpoints", replicas), func() bool {
		pods := c.pods(t)
		for _, pod := range pods {
			if !isReady(pod) {
				return false
			}
		}
		return len(pods) == replicas && len(c.endpoints(t)) == replicas
	})
}

func (c *cluster) address(t *testing.T, path string, query url.Values) string {
	t.Helper()
	return (&url.URL{Scheme: "http", Host: c.pods(t)[0].Status.PodIP + ":8080", Path: path, RawQuery: query.Encode()}).String()
}

func (c *cluster) file(t *testing.T, path string) string {
	t.Helper()
	return c.ask(c.address(t, "/file", url.Values{"path": {path}}))
}

func deploymentReady(t *testing.T, c *cluster) { c.settled(t, 2) }

func initDone(t *testing.T, c *cluster) {
	want := "prepared for " + c.pods(t)[0].Status.PodIP + "\n"
	if got := c.file(t, "/var/lib/e2e-data/note"); got != want {
		t.Errorf("the init container left %q, want %q", got, want)
	}
}

func filesPrivate(t *testing.T, c *cluster) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("e2e-left-%d", os.Getpid()))
	if got := c.ask(c.address(t, "/write", url.Values{"path": {path}})); got != "" {
		t.Fatalf("the container could not write: %s", got)
	}
	if got := c.file(t, path); got != "left" {
		t.Errorf("the container reads %q from the file it wrote", got)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s was left on the host", path)
	}
	if _, err := os.Lstat("/var/lib/e2e-data"); err == nil {
		t.Error("a mount point was left on the host")
	}
}

func tokenWorks(t *testing.T, c *cluster) {
	if got := c.ask(c.address(t, "/secrets", nil)); got != "403 Forbidden" {
		t.Errorf("a pod listing Secrets was answered %q, want 403", got)
	}
}

func logsAndExec(t *testing.T, c *cluster) {
	pod := c.pods(t)[0]
	if got, want := c.must("kubectl", "logs", pod.Name, "-c", "web"), "serving on "+pod.Status.PodIP+":8080\n"; got != want {
		t.Errorf("logs %q, want %q", got, want)
	}
	if got := c.must("kubectl", "exec", pod.Name, "-c", "web", "--", "sh", "-c", "echo $POD_IP"); got != pod.Status.PodIP+"\n" {
		t.Errorf("exec printed %q, want the pod's address", got)
	}
	if _, code := c.devcluster("kubectl", "exec", pod.Name, "-c", "web", "--", "sh", "-c", "exit 7"); code != 7 {
		t.Errorf("exec answered code %d, want 7", code)
	}
}

func scaling(t *testing.T, c *cluster) {
	c.must("kubectl", "scale", "deployment/web", "--replicas=4")
	c.settled(t, 4)
	c.must("kubectl", "scale", "deployment/web", "--replicas=1")
	c.settled(t, 1)
}

func liveUpdate(t *testing.T, c *cluster) {
	c.must("kubectl", "patch", "configmap", "settings", "-p", `{"data":{"color":"blue"}}`)
	took := c.eventually(t, "the new value in the container", func() bool { return c.file(t, "/etc/e2e-settings/color") == "blue" })
	t.Logf("after %s", took.Round(time.Millisecond))
}

func readinessLost(t *testing.T, c *cluster) {
	c.ask(c.address(t, "/busy", nil))
	took := c.eventually(t, "the pod to be unready", func() bool { return !isReady(c.pods(t)[0]) })
	if limit := 2500 * time.Millisecond; took > limit {
		t.Errorf("seen after %s, want at most %s (the probe's period is 1s)", took, limit)
	}
}

func restartsOf(pod corev1.Pod) map[string]int32 {
	counts := map[string]int32{}
	for _, status := range pod.Status.ContainerStatuses {
		counts[status.Name] = status.RestartCount
	}
	return counts
}

func livenessRestart(t *testing.T, c *cluster) {
	before := c.pods(t)[0]
	c.ask(c.address(t, "/break", nil))
	c.eventually(t, "the container to be restarted and ready", func() bool {
		pod := c.pods(t)[0]
		return restartsOf(pod)["web"] == 1 && isReady(pod)
	})
	after := c.pods(t)[0]
	if got := restartsOf(after)["neighbour"]; got != 0 {
		t.Errorf("the neighbour was restarted %d times", got)
	}
	if after.UID != before.UID || after.Status.PodIP != before.Status.PodIP {
		t.Error("the pod was replaced")
	}
	if got := c.must("kubectl", "logs", after.Name, "-c", "web", "--previous"); !strings.Contains(got, "asked to end") {
		t.Errorf("the log of the run before does not end with its stop:\n%s", got)
	}
	c.settled(t, 1)
}

func gracefulStop(t *testing.T, c *cluster) {
	pod := c.pods(t)[0]
	logs, err := c.client.CoreV1().Pods("default").GetLogs(pod.Name, &corev1.PodLogOptions{Container: "web", Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	c.must("kubectl", "delete", "pod", pod.Name, "--wait=false")
	c.eventually(t, "the pod to be gone", func() bool {
		_, err := c.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if got := c.ask("http://" + pod.Status.PodIP + ":8080/live"); !strings.Contains(got, "refused") {
		t.Errorf("the pod is gone and its process answers: %q", got)
	}
	// A followed log ends when the container has.
	if got, err := io.ReadAll(logs); err != nil || !strings.Contains(string(got), "asked to end") {
		t.Errorf("the container was not asked to end: %v\n%s", err, got)
	}
	c.settled(t, 1)
}

func execInside(t *testing.T, c *cluster) {
	if _, code := c.devcluster("exec", "--", "sh", "-c", "exit 9"); code != 9 {
		t.Errorf("exec answered code %d, want 9", code)
	}
	if got := c.must("exec", "--", "kubectl", "get", "--raw", "/readyz"); got != "ok" {
		t.Errorf("kubectl inside printed %q, want ok", got)
	}
	if output, code := c.devcluster("exec", "--", "no-such-command"); code != 127 || !strings.Contains(output, "not found") {
		t.Errorf("an unknown command answered %d: %s", code, output)
	}
}
