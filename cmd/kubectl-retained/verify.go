package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/holdfast-project/holdfast/pkg/inspect"
)

const verifyHelp = `Verify every checkpoint: names, checksums, plan, files, owners, receipt.

Without -f it reads the cluster; it writes nothing, and needs the right to list
HAProxyCfgs. What else may not be read is Unknown, not damaged. With -f it reads
what kubectl or a backup tool wrote, and needs no cluster.

Exit codes:
  0  every promoted checkpoint is verified and acknowledged
  1  something is damaged
  2  something could not be judged, and nothing is damaged
  3  wrong usage, or input that cannot be read`

const verifyExamples = `  # Verify what is retained in a namespace of the current cluster
  %[1]s verify -n edge

  # Verify an export, with all that verification needs
  kubectl get htplcfg,hpcfg,hpmap,hpgf,hpcl,leases,secrets -n edge -o yaml > edge.yaml
  %[1]s verify -f edge.yaml

  # Verify the folder that a backup tool wrote, for a script
  %[1]s verify -f backup/ -o name && echo sound

  # See the verdict on each file as the API would serve it
  %[1]s verify -f edge.yaml -o yaml`

func newVerifyCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	s := newSource(streams, inspect.Formats)
	cmd := &cobra.Command{
		Use:     "verify [-f FILE|DIR|-]...",
		Short:   "Verify checkpoints, from files or from the cluster",
		Long:    verifyHelp,
		Example: fmt.Sprintf(verifyExamples, name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := verify(cmd.Context(), s)
			if err != nil {
				return err
			}
			*code = int(report.Outcome())
			printer := inspect.Printer{Out: streams.Out, ErrOut: streams.ErrOut, Format: s.output}
			return printer.Print(report)
		},
	}
	s.addFlags(cmd, "Verify")
	return cmd
}

func verify(ctx context.Context, s *source) (*inspect.Report, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if s.fromFiles() {
		inventory, err := s.read(ctx, false)
		if err != nil {
			return nil, err
		}
		return inspect.Verify(inventory)
	}
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	// Only here: reading files, which may be a terminal, ends at once by default.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cluster.Verify(ctx)
}
