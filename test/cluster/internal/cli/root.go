package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/test/cluster/internal/controlplane"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

// exitError carries the exit code of a command that was run for the user.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs the command line and answers the exit code.
func Main(ctx context.Context, args []string) int {
	if filepath.Base(args[0]) == "kubectl" {
		return controlplane.RunKubectl(args[1:])
	}
	root := newRoot()
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	var code exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
		return 1
	}
}

func newRoot() *cobra.Command {
	var dirName string
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "A whole Kubernetes cluster on this machine, in one directory and one network namespace",
		Long: `devcluster runs etcd, kube-apiserver, kube-controller-manager and one node that
runs pods as local processes. It lives in namespaces of its own: no port of this
machine is taken but one on 127.0.0.1, nothing leaves the machine, and down
leaves nothing behind.`,
		Example: `  devcluster up
  eval "$(devcluster env)"
  kubectl get pods -A
  devcluster exec -- curl -s http://10.244.0.10:8080/
  devcluster down`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&dirName, "state", "", "state directory (default $"+state.EnvDir+", else $XDG_STATE_HOME/holdfast/devcluster, else /tmp/holdfast-devcluster-$UID)")
	dir := func() (state.Dir, error) { return state.Resolve(dirName) }
	root.AddCommand(newUp(dir), newDown(dir), newStatus(dir), newEnv(dir), newExec(dir), newKubectl(dir), newSupervise(), newComponent())
	return root
}

// running answers the directory of a living cluster, or says what is there.
func running(dir func() (state.Dir, error)) (state.Dir, state.Info, error) {
	d, err := dir()
	if err != nil {
		return "", state.Info{}, err
	}
	info, err := d.Read()
	switch {
	case err == nil && d.Alive():
		return d, info, nil
	case err == nil:
		return "", state.Info{}, fmt.Errorf("the cluster in %s is dead: its supervisor (process %d) is gone and its processes with it; clean up with: devcluster down (or start anew with: devcluster up)", d, info.PID)
	case errors.Is(err, os.ErrNotExist):
		return "", state.Info{}, fmt.Errorf("no cluster in %s; start one with: devcluster up", d)
	default:
		return "", state.Info{}, err
	}
}
