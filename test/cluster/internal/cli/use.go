package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/test/cluster/internal/controlplane"
	"github.com/holdfast-project/holdfast/test/cluster/internal/inside"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

func newEnv(dir func() (state.Dir, error)) *cobra.Command {
	return &cobra.Command{
		Use:     "env",
		Short:   "Print shell lines that set KUBECONFIG and put the cluster's kubectl first in PATH",
		Example: `  eval "$(devcluster env)"`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d, _, err := running(dir)
			if err != nil {
				return err
			}
			if err := linkKubectl(d); err != nil {
				return err
			}
			fmt.Printf("export KUBECONFIG=%q\nexport "+state.EnvKubectlCache+"=%q\nexport PATH=%q:\"$PATH\"\n", d.Kubeconfig(), d.KubectlCache(), d.ToolDir())
			return nil
		},
	}
}

// linkKubectl points the tool folder at this binary, which behaves as kubectl
// under that name.
func linkKubectl(dir state.Dir) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this binary: %w", err)
	}
	link := filepath.Join(dir.ToolDir(), "kubectl")
	if old, err := os.Readlink(link); err == nil && old == self {
		return nil
	}
	_ = os.Remove(link)
	if err := os.Symlink(self, link); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}

func newExec(dir func() (state.Dir, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- COMMAND [ARGUMENT...]",
		Short: "Run a command inside the cluster's network, with KUBECONFIG set",
		Long: `Run a command inside the cluster's namespaces: it reaches pods and Services by
address and sees this machine's files. Its exit code is passed on; it is ended
when this command is.`,
		Example: `  devcluster exec -- kubectl get nodes
  devcluster exec -- curl -s http://10.244.0.10:8404/ready
  devcluster exec -- bash`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, _, err := running(dir)
			if err != nil {
				return err
			}
			if err := linkKubectl(d); err != nil {
				return err
			}
			code, err := inside.Exec(d, args)
			if err != nil {
				fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
			}
			if code != 0 {
				return exitError(code)
			}
			return err
		},
	}
}

func newKubectl(dir func() (state.Dir, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [ARGUMENT...]",
		Short: "Run the cluster's own kubectl against it, from outside",
		Long: `Run the cluster's own kubectl against it. All arguments belong to kubectl; another
state directory than the default is chosen with ` + state.EnvDir + `.`,
		Example:            "  devcluster kubectl get pods -A\n  " + state.EnvDir + "=/tmp/second devcluster kubectl version",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			d, _, err := running(dir)
			if err != nil {
				return err
			}
			for name, value := range map[string]string{"KUBECONFIG": d.Kubeconfig(), state.EnvKubectlCache: d.KubectlCache()} {
				if err := os.Setenv(name, value); err != nil {
					return fmt.Errorf("setting %s: %w", name, err)
				}
			}
			if code := controlplane.RunKubectl(args); code != 0 {
				return exitError(code)
			}
			return nil
		},
	}
}
