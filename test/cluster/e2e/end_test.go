package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func down(t *testing.T, c *cluster) {
	t.Helper()
	address := forwarder(t, c)
	c.must("down")
	c.eventually(t, "processes, mounts and files to be gone", func() bool { return len(c.leftovers()) == 0 })
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		_ = conn.Close()
		t.Errorf("something still listens on %s", address)
	}
	if output, code := c.devcluster("down"); code != 0 {
		t.Errorf("a second down answered code %d:\n%s", code, output)
	}
	if output, code := c.devcluster("status"); code == 0 || !strings.Contains(output, "no cluster") {
		t.Errorf("status after down answered code %d:\n%s", code, output)
	}
}

func forwarder(t *testing.T, c *cluster) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", stored(t, c).Port)
}

type stateFile struct{ PID, Port int }

func stored(t *testing.T, c *cluster) stateFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "devcluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var info stateFile
	if err := json.Unmarshal(text, &info); err != nil {
		t.Fatal(err)
	}
	return info
}

// TestDeadSupervisor kills the supervisor without warning: nothing may survive
// it but files, and those are cleaned up.
func TestDeadSupervisor(t *testing.T) {
	c := newCluster(t)
	c.up()
	if err := syscall.Kill(stored(t, c).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.eventually(t, "every process to be gone", func() bool {
		for _, left := range c.leftovers() {
			if strings.HasPrefix(left, "process") {
				return false
			}
		}
		return true
	})
	if output, code := c.devcluster("status"); code == 0 || !strings.Contains(output, "dead") {
		t.Errorf("status answered code %d:\n%s", code, output)
	}
	if output := c.up(); !strings.Contains(output, "Found a dead cluster") {
		t.Errorf("up does not say what it found:\n%s", output)
	}
	if _, err := c.client.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the new cluster does not answer: %v", err)
	}
	down(t, c)
}
