package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startLimit bounds one run of the demo script. It waits for readiness with
// limits of its own, whose messages are more precise.
const startLimit = 8 * time.Minute

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

// runAll starts the demo twice, because a second start must find its way, runs
// the tests, and checks that stopping leaves nothing.
func runAll(m *testing.M) (int, error) {
	bin := os.Getenv("HOLDFAST_BIN")
	if bin == "" {
		return 0, errors.New("HOLDFAST_BIN is not set: run make test-integration")
	}
	state, err := os.MkdirTemp("", "holdfast-it-")
	if err != nil {
		return 0, fmt.Errorf("making a state folder: %w", err)
	}
	if err := os.Setenv("HOLDFAST_DEVCLUSTER", filepath.Join(state, "c")); err != nil {
		return 0, err
	}
	defer os.RemoveAll(state)

	for _, attempt := range []string{"first", "second"} {
		fmt.Printf("integration: starting the demo, %s time\n", attempt)
		if err := demo("up"); err != nil {
			return 0, errors.Join(fmt.Errorf("starting the demo for the %s time: %w", attempt, err), demo("down"))
		}
	}
	code := m.Run()
	fmt.Println("integration: stopping the demo")
	if err := demo("down"); err != nil {
		return code, fmt.Errorf("stopping the demo: %w", err)
	}
	return code, nothingLeft(os.Getenv("HOLDFAST_DEVCLUSTER"))
}

func demo(verb string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../hack/demo.sh", verb)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// nothingLeft reports processes, mounts, sockets and files that still mention
// the state folder.
func nothingLeft(state string) error {
	var left []string
	if _, err := os.Lstat(state); !errors.Is(err, os.ErrNotExist) {
		left = append(left, "folder "+state)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	self := fmt.Sprintf("/proc/%d", os.Getpid())
	for _, p := range processes {
		// The test itself carries the folder in its environment.
		if p == self {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if strings.Contains(string(cmdline), state) {
			left = append(left, "process "+p+": "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	for _, table := range []string{"/proc/self/mountinfo", "/proc/net/unix"} {
		content, err := os.ReadFile(table)
		if err != nil {
			return fmt.Errorf("reading %s: %w", table, err)
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, state) {
				left = append(left, table+": "+strings.TrimSpace(line))
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind after the demo was stopped:\n  %s", strings.Join(left, "\n  "))
	}
	return nil
}
