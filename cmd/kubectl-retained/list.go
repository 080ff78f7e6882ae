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

const listHelp = `List the checkpoints of a namespace, or of all, with their verdicts.

It asks the aggregated API. Where that is not installed or does not answer, it reads
and verifies the stored objects itself, says so on standard error, and needs the rights
that verify needs. With -f it reads what kubectl, a backup tool or export wrote.

Exit codes:
  0  listed, whatever the verdicts
  3  wrong usage, or something that cannot be read`

const listExamples = `  # What is retained in a namespace
  %[1]s list -n edge

  # Everywhere, with plans, evidence and reasons
  %[1]s list -A -o wide

  # Names alone, of an export
  %[1]s list -f edge.yaml -o name`

func newListCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	s := newSource(streams, inspect.ListFormats)
	cmd := &cobra.Command{
		Use:     "list [-f FILE|DIR|-]...",
		Aliases: []string{"ls"},
		Short:   "List checkpoints with their verdicts",
		Long:    listHelp,
		Example: fmt.Sprintf(listExamples, name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listing, err := list(cmd.Context(), s)
			if err != nil {
				return err
			}
			if listing.Unserved != nil {
				if _, err := fmt.Fprintf(streams.ErrOut, "the aggregated API does not answer, so the stored objects were read: %v\n", listing.Unserved); err != nil {
					return err
				}
			}
			printer := inspect.Printer{Out: streams.Out, ErrOut: streams.ErrOut, Format: s.output}
			return printer.PrintList(listing.Report, s.allNamespaces || s.fromFiles())
		},
	}
	s.addFlags(cmd, "List")
	return cmd
}

func list(ctx context.Context, s *source) (*inspect.Listing, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if s.fromFiles() {
		inventory, err := s.read(ctx, false)
		if err != nil {
			return nil, err
		}
		report, err := inspect.Verify(inventory)
		return &inspect.Listing{Report: report}, err
	}
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cluster.List(ctx)
}
