package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

const (
	fleet = "edge"
	web   = "web"
	// settle bounds waits for something the fleet does by itself.
	settle = 90 * time.Second
	poll   = 100 * time.Millisecond
)

func cluster(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(os.Getenv("HOLDFAST_BIN"), "devcluster"), args...)
}

// tryKube runs kubectl and returns what it printed, both streams on an error.
func tryKube(ctx context.Context, args ...string) (string, error) {
	cmd := cluster(ctx, append([]string{"kubectl"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func kube(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryKube(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inside runs a command in the cluster's network, where pod addresses are.
func inside(ctx context.Context, args ...string) (string, error) {
	out, err := cluster(ctx, append([]string{"exec", "--"}, args...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// eventually polls until check passes, and fails with its last complaint.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	started := time.Now()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			t.Logf("%s: after %.1f s", what, time.Since(started).Seconds())
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, settle, err)
		case <-ticker.C:
		}
	}
}

func checkpoints(ctx context.Context) ([]views.RetainedCheckpoint, error) {
	out, err := tryKube(ctx, "-n", fleet, "get", "retainedcheckpoints", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list views.RetainedCheckpointList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("decoding checkpoints: %w", err)
	}
	return list.Items, nil
}

func newest(ctx context.Context) (*views.RetainedCheckpoint, error) {
	items, err := checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if items[i].Status.Position == views.PositionNewest {
			return &items[i], nil
		}
	}
	return nil, fmt.Errorf("none of %d checkpoints is the newest", len(items))
}

func mustNewest(t *testing.T) *views.RetainedCheckpoint {
	t.Helper()
	found, err := newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func condition(conditions []metav1.Condition, kind string) metav1.Condition {
	if found := meta.FindStatusCondition(conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{Type: kind, Status: "absent"}
}

func wantCondition(conditions []metav1.Condition, kind string, status metav1.ConditionStatus) error {
	if found := condition(conditions, kind); found.Status != status {
		return fmt.Errorf("condition %s is %s (%s: %s), want %s", kind, found.Status, found.Reason, found.Message, status)
	}
	return nil
}

type pod struct {
	Name, UID, IP string
	Ready         bool
}

func proxies(ctx context.Context) ([]pod, error) {
	out, err := tryKube(ctx, "-n", fleet, "get", "pods", "-l", "app.kubernetes.io/name=holdfast-proxy", "-o",
		`jsonpath={range .items[?(@.status.podIP)]}{.metadata.name} {.metadata.uid} {.status.podIP} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	var found []pod
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) == 4 {
			found = append(found, pod{Name: fields[0], UID: fields[1], IP: fields[2], Ready: fields[3] == "True"})
		}
	}
	return found, nil
}

// agentCounters returns the agent's counts of applies and reloads, which do not
// move unless somebody touched the pod.
func agentCounters(t *testing.T, p pod) string {
	t.Helper()
	out, err := inside(t.Context(), "curl", "-sS", "--fail", "--max-time", "5", "http://"+p.IP+":9445/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var counters []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "holdfast_agent_apply_total") || strings.HasPrefix(line, "holdfast_agent_reloads_total") {
			counters = append(counters, strings.TrimSpace(line))
		}
	}
	if len(counters) == 0 {
		t.Fatalf("the agent of pod %s shows no apply counter", p.Name)
	}
	return strings.Join(counters, "\n")
}

// fetch asks a proxy for a host over TLS and returns the body.
func fetch(ctx context.Context, p pod, host string) (string, error) {
	return inside(ctx, "curl", "-sS", "--fail", "--max-time", "5", "--insecure",
		"--resolve", host+":8443:"+p.IP, "https://"+host+":8443/")
}
