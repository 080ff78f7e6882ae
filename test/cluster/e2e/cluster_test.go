package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	patience = 30 * time.Second
	pollTime = 50 * time.Millisecond
)

// cluster is one development cluster under test.
type cluster struct {
	t      *testing.T
	binary string
	dir    string
	client kubernetes.Interface
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	binary := os.Getenv("DEVCLUSTER_BIN")
	if binary == "" {
		t.Skip("DEVCLUSTER_BIN names no built devcluster")
	}
	// Not t.TempDir: its name is too long for the sockets.
	base, err := os.MkdirTemp("", "dc")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, binary: binary, dir: filepath.Join(base, "state")}
	t.Cleanup(func() {
		c.devcluster("down")
		_ = os.RemoveAll(base)
	})
	return c
}

// devcluster runs the binary and answers its output and exit code.
func (c *cluster) devcluster(args ...string) (string, int) {
	c.t.Helper()
	return c.run(nil, args...)
}

func (c *cluster) run(env []string, args ...string) (string, int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Env = append(append(os.Environ(), "HOLDFAST_DEVCLUSTER="+c.dir), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	_ = cmd.Run()
	if cmd.ProcessState == nil {
		c.t.Fatalf("%s could not be started", c.binary)
	}
	return output.String(), cmd.ProcessState.ExitCode()
}

// must runs the binary and ends the test unless it exits with 0.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	output, code := c.devcluster(args...)
	if code != 0 {
		c.t.Fatalf("devcluster %s: exit code %d\n%s", strings.Join(args, " "), code, output)
	}
	return output
}

func (c *cluster) up() string {
	c.t.Helper()
	output := c.must("up")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		c.t.Fatal(err)
	}
	return output
}

// apply hands a manifest to kubectl.
func (c *cluster) apply(manifest string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.must("kubectl", "apply", "-f", file)
}

// ask fetches a URL from inside the cluster's network.
func (c *cluster) ask(url string) string {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	output, _ := c.run([]string{envAsk + "=" + url}, "exec", "--", self)
	return output
}

// eventually polls until the condition holds and answers how long that took.
func (c *cluster) eventually(t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > patience {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(pollTime)
	}
	return time.Since(begin)
}

// leftovers answers processes and mounts that name the state directory.
func (c *cluster) leftovers() []string {
	var found []string
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		text, err := os.ReadFile(file)
		line := strings.ReplaceAll(string(text), "\x00", " ")
		if err == nil && strings.Contains(line, c.dir) && !strings.Contains(file, "/self/") {
			found = append(found, "process "+line)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.dir) {
			found = append(found, "mount "+line)
		}
	}
	if _, err := os.Lstat(c.dir); err == nil {
		found = append(found, "folder "+c.dir)
	}
	return found
}
