package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/holdfast-project/holdfast/pkg/inspect"
)

const statusHelp = `One screen on every template: what the fleet was last told to run, who leads, what
is retained of it, what was last seen of the pods, and whether replacement pods would
start now; if not, why, and what to do.

It reads the stored objects themselves, so that it works while the aggregated API
does not. It writes nothing and talks to no pod; drill explains each check.

Exit codes:
  0  replacement pods of every template would start
  1  those of some template would not
  2  that is not known: something could not be read, or there is no template
  3  wrong usage, or input that cannot be read`

const statusExamples = `  # Everything in one namespace
  %[1]s status -n edge

  # Every namespace
  %[1]s status -A

  # From an export
  kubectl get htplcfg,hpcfg,hpmap,hpgf,hpcl,leases,secrets,pods -n edge -o yaml | %[1]s status -f -`

func newStatusCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	s := newSource(streams, inspect.DrillFormats)
	cmd := &cobra.Command{
		Use:     "status [-f FILE|DIR|-]...",
		Short:   "Show templates, intents, checkpoints and pods on one screen",
		Long:    statusHelp,
		Example: fmt.Sprintf(statusExamples, name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := status(cmd.Context(), s)
			if err != nil {
				return err
			}
			*code = exitCodes[found.Answer()]
			return found.Print(streams.Out, s.output)
		},
	}
	s.addFlags(cmd, "Show")
	return cmd
}

func status(ctx context.Context, s *source) (*inspect.Status, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if s.fromFiles() {
		inventory, err := s.read(ctx, true)
		if err != nil {
			return nil, err
		}
		return inspect.NewStatus(ctx, inventory, time.Time{})
	}
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cluster.Status(ctx, time.Now())
}
