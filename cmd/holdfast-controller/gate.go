package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/inspect"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

// newGateCommand is what a Job runs for "kubectl retained drill --gate=cluster".
func newGateCommand() *cobra.Command {
	var kubeconfig, namespace, haproxy, dir string
	command := &cobra.Command{
		Use:   "gate CHECKPOINT",
		Short: "Have HAProxy check a stored checkpoint, and print its verdict",
		Long: "gate reads a checkpoint, verifies it to the last byte, has HAProxy check it and prints the verdict\n" +
			"as one line of JSON. It changes nothing. Files, keys included, are laid out for the time of the check.",
		Example: "  holdfast-controller gate edge-haproxycfg-retained-0123456789abcdef --namespace=edge",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			if namespace == "" {
				return errors.New("--namespace must name the checkpoint's namespace")
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			cluster, err := inspect.NewCluster(config, namespace)
			if err != nil {
				return err
			}
			inventory, err := cluster.Inventory(ctx)
			if err != nil {
				return err
			}
			restored, err := inventory.Restore(args[0])
			if err != nil {
				return err
			}
			verdict, err := gate.New(gate.Config{Binary: haproxy, Dir: dir}).Check(ctx, restored.Output)
			if err != nil {
				return err
			}
			return json.NewEncoder(command.OutOrStdout()).Encode(inspect.GateVerdict{
				Valid: verdict.Outcome == gate.Valid, Refused: verdict.Outcome == gate.Refused,
				Message: selection.Redact(restored.Output, selection.Alerts(verdict.Message)), Version: verdict.Version,
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; empty uses the pod's service account")
	flags.StringVar(&namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the checkpoint ($POD_NAMESPACE)")
	flags.StringVar(&haproxy, "haproxy", "haproxy", "HAProxy binary that checks it")
	flags.StringVar(&dir, "gate-dir", "", "folder in which the checkpoint is laid out; empty uses the system's for temporary files")
	return command
}
