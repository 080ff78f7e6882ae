package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/test/cluster/internal/controlplane"
	"github.com/holdfast-project/holdfast/test/cluster/internal/inside"
	"github.com/holdfast-project/holdfast/test/cluster/internal/node"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
	"github.com/holdfast-project/holdfast/test/cluster/internal/supervisor"
)

// reportFD is where up gives its supervisor the report pipe.
const reportFD = 3

func newSupervise() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise STATE BIN",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			syscall.CloseOnExec(reportFD)
			return supervisor.Run(state.Dir(args[0]), args[1], os.NewFile(reportFD, "report"))
		},
	}
}

func newComponent() *cobra.Command {
	return &cobra.Command{
		Use:    "component NAME STATE",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := state.Dir(args[1])
			switch args[0] {
			case "inside":
				if err := inside.Run(cmd.Context(), dir); err != nil {
					// The supervisor reads the reason from our output.
					fmt.Println(err)
					return err
				}
				return nil
			case "etcd":
				return untilSignal(cmd.Context(), func(ctx context.Context) error { return controlplane.RunEtcd(ctx, dir) })
			case "node":
				return untilSignal(cmd.Context(), func(ctx context.Context) error { return node.Run(ctx, dir) })
			case "kube-apiserver":
				return exitError(controlplane.RunAPIServer(dir))
			case "kube-controller-manager":
				return exitError(controlplane.RunControllerManager(dir))
			}
			return fmt.Errorf("unknown component %s", args[0])
		},
	}
}

func untilSignal(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	return run(ctx)
}
