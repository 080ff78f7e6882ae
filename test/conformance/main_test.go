package conformance

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
	insideVariable = "HOLDFAST_CONFORMANCE_INSIDE"
	// startLimit bounds the start of the cluster, and its end.
	startLimit = 5 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(insideVariable) != "" {
		os.Exit(m.Run())
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// outside starts a cluster, runs this binary again in its network, and deletes
// the cluster, whatever happens.
func outside() (code int, err error) {
	bin := os.Getenv(binVariable)
	if bin == "" {
		return 0, fmt.Errorf("%s is not set: run make conformance", binVariable)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A short path: sockets of the cluster lie below it.
	folder, err := os.MkdirTemp("", "hfconf")
	if err != nil {
		return 0, fmt.Errorf("making a state folder: %w", err)
	}
	if err := os.Setenv(stateVariable, filepath.Join(folder, "c")); err != nil {
		return 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		err = errors.Join(err, devcluster(ctx, bin, "down"), os.RemoveAll(folder))
	}()
	crds, err := filepath.Abs("../../manifests/base/crd")
	if err != nil {
		return 0, err
	}
	for _, args := range [][]string{
		{"up", "--bin", bin},
		{"kubectl", "apply", "--server-side", "-k", crds},
		{"kubectl", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
		{"kubectl", "create", "namespace", namespace},
	} {
		if err := devcluster(ctx, bin, args...); err != nil {
			return 0, err
		}
	}
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
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "devcluster"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("devcluster %v: %w: %s", args, err, out)
	}
	return nil
}
