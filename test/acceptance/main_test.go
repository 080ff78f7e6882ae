package acceptance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	binVariable = "HOLDFAST_BIN"
	// stateVariable is the development cluster's own.
	stateVariable = "HOLDFAST_DEVCLUSTER"
	// insideVariable is set for the run inside of the cluster's network.
	insideVariable = "HOLDFAST_ACCEPTANCE_INSIDE"
	// atOnce is how many tests may run side by side; the default, the number of
	// processors, would make a sequence of TestAllAcceptanceParallel.
	atOnce = "16"
	// startLimit bounds the start of the cluster, and its end.
	startLimit = 2 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(insideVariable) != "" {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, "acceptance:", err)
			os.Exit(1)
		}
		code := m.Run()
		timings.print(os.Stdout)
		os.Exit(code)
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		code = 1
	}
	os.Exit(code)
}

// outside starts a cluster, runs this binary again in its network, and deletes
// the cluster. One that runs already, named by the environment, is used and left.
func outside() (code int, err error) {
	bin := os.Getenv(binVariable)
	if bin == "" {
		return 0, fmt.Errorf("%s is not set: run make acceptance", binVariable)
	}
	// An interrupted run cleans up too: the run inside ends with its command.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv(stateVariable) == "" || devcluster(ctx, bin, "status") != nil {
		down, err := start(ctx, bin)
		defer func() { err = errors.Join(err, down()) }()
		if err != nil {
			return 0, err
		}
	}
	crds, err := filepath.Abs("../../manifests/base/crd")
	if err != nil {
		return 0, err
	}
	for _, args := range [][]string{
		{"kubectl", "apply", "--server-side", "-k", crds},
		{"kubectl", "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"},
	} {
		if err := devcluster(ctx, bin, args...); err != nil {
			return 0, err
		}
	}
	return again(ctx, bin)
}

// start makes a cluster of this run's own. The function deletes it, and is
// there even after an error.
func start(ctx context.Context, bin string) (down func() error, err error) {
	folder, err := os.MkdirTemp("", "holdfast-acceptance-")
	if err != nil {
		return func() error { return nil }, fmt.Errorf("making a state folder: %w", err)
	}
	down = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		return errors.Join(devcluster(ctx, bin, "down"), os.RemoveAll(folder))
	}
	if err := os.Setenv(stateVariable, filepath.Join(folder, "c")); err != nil {
		return down, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return down, devcluster(ctx, bin, "up", "--bin", bin, "--require", "haproxy")
}

// again runs the tests, with the arguments of this run.
func again(ctx context.Context, bin string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding the test binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "devcluster"), append([]string{"exec", "--", self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// devcluster runs a command of the cluster and tells what it said when it fails.
func devcluster(ctx context.Context, bin string, args ...string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "devcluster"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("devcluster %v: %w: %s", args, err, out)
	}
	return nil
}
