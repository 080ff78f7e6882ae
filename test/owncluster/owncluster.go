// Package owncluster gives the tests of a package a development cluster of their
// own, and runs them inside of its network, where kube-apiserver, the addresses of
// pods and whatever the tests listen on reach each other.
//
// Promises: the cluster is deleted whatever becomes of the tests, and nobody
// else's is touched, unless that is asked for. Limits: the tests see this machine's
// files, but no network beside the cluster's.
package owncluster

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

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// BinVariable names the folder of the binaries.
	BinVariable = "HOLDFAST_BIN"
	// stateVariable is the development cluster's own.
	stateVariable = "HOLDFAST_DEVCLUSTER"
	// insideVariable is set for the run inside of the cluster's network.
	insideVariable = "HOLDFAST_INSIDE"
	// stepLimit bounds the start of the cluster, each further step, and its end.
	stepLimit = 5 * time.Minute
)

// Cluster is what the tests of a package run on. It knows our definitions.
type Cluster struct {
	// Target is what to make for them, as an error says when nothing is built.
	Target string
	// Namespaces are there from the start.
	Namespaces []string
	// Require, if set, is a program that pods need to have.
	Require string
	// Reuse takes, and leaves, a cluster that runs already and is named by the
	// environment.
	Reuse bool
}

// Main is for TestMain. It starts the cluster and returns the exit code of run, which
// runs the tests inside.
func (c Cluster) Main(run func() int) int {
	flag.Parse()
	if os.Getenv(insideVariable) != "" {
		return run()
	}
	code, err := c.outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting tests in a cluster of their own:", err)
		return max(code, 1)
	}
	return code
}

// Config is the way to the cluster's control plane, for tests that run inside. It is
// asked without limits of our own.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Binary is the path of a binary of ours, or of the cluster's.
func Binary(name string) string { return filepath.Join(os.Getenv(BinVariable), name) }

// outside starts a cluster, runs this binary again in its network, and deletes
// the cluster, whatever happens. An interrupted run cleans up too: the run inside
// ends with its command.
func (c Cluster) outside() (code int, err error) {
	if os.Getenv(BinVariable) == "" {
		return 0, fmt.Errorf("%s is not set: run make %s", BinVariable, c.Target)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !c.Reuse || os.Getenv(stateVariable) == "" || devcluster(ctx, "status") != nil {
		// A short path: sockets of the cluster lie below it.
		folder, problem := os.MkdirTemp("", "hfown")
		if problem != nil {
			return 0, fmt.Errorf("making a state folder: %w", problem)
		}
		if err := os.Setenv(stateVariable, filepath.Join(folder, "c")); err != nil {
			return 0, err
		}
		defer func() {
			err = errors.Join(err, devcluster(context.WithoutCancel(ctx), "down"), os.RemoveAll(folder))
		}()
		if err := devcluster(ctx, c.up()...); err != nil {
			return 0, err
		}
	}
	if err := c.furnish(ctx); err != nil {
		return 0, err
	}
	return again(ctx)
}

func (c Cluster) up() []string {
	up := []string{"up", "--bin", os.Getenv(BinVariable)}
	if c.Require != "" {
		up = append(up, "--require", c.Require)
	}
	return up
}

// furnish brings what the tests expect to be there.
func (c Cluster) furnish(ctx context.Context) error {
	crds, err := filepath.Abs("../../manifests/base/crd")
	if err != nil {
		return err
	}
	steps := [][]string{
		{"kubectl", "apply", "--server-side", "-k", crds},
		{"kubectl", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
	}
	for _, namespace := range c.Namespaces {
		steps = append(steps, []string{"kubectl", "create", "namespace", namespace})
	}
	for _, args := range steps {
		if err := devcluster(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// again runs the tests, with the arguments of this run.
func again(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding the test binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, Binary("devcluster"), append([]string{"exec", "--", self}, os.Args[1:]...)...)
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
func devcluster(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, Binary("devcluster"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("devcluster %v: %w: %s", args, err, out)
	}
	return nil
}
