package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/holdfast-project/holdfast/pkg/inspect"
)

const diffHelp = `How do two checkpoints differ? Configuration and files as a unified diff,
certificates and bundles of authorities by their checksums alone.

Both are verified first, and one that is damaged is refused. A checkpoint is named
by its name or the beginning of its checksum. Needs the right to read the stored
objects, Secrets too if there are certificates.

Coloured on a terminal, unless NO_COLOR is set; for a pager that shows colours, say
--color=always. Elsewhere the output is a patch as it is.

Exit codes:
  0  nothing differs
  1  something does
  3  wrong usage, or a checkpoint that cannot be read or verified`

const diffExamples = `  # What would a recovery undo? The newest against the one before
  %[1]s diff -n edge 4e61de13 c37ac098

  # From an export, with a pager that shows colours
  %[1]s diff -f edge.yaml 4e61de13 c37ac098 --color=always | less -R`

const configHelp = `The configuration of a checkpoint, or another file of it by its path, after
everything about the checkpoint was verified. Certificates and bundles of authorities
are shown to nobody.

Reads the stored objects; with the aggregated API up, this does the same with fewer
rights: kubectl get --raw .../retainedcheckpoints/NAME/config?path=PATH`

const configExamples = `  # The configuration
  %[1]s config -n edge 4e61de13

  # A map
  %[1]s config -n edge 4e61de13 --path maps/hosts.map`

func newDiffCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	s, colour := newSource(streams, nil), new(colour)
	cmd := &cobra.Command{
		Use:     "diff FROM TO [-f FILE|DIR|-]...",
		Short:   "Show how two checkpoints differ",
		Long:    diffHelp,
		Example: fmt.Sprintf(diffExamples, name),
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := colour.check(); err != nil {
				return err
			}
			found, err := restore(cmd.Context(), s, args)
			if err != nil {
				return err
			}
			text := inspect.Diff(found[0], found[1])
			if text != "" {
				*code = 1
			}
			_, err = io.WriteString(streams.Out, colour.apply(text, streams.Out))
			return err
		},
	}
	colour.addFlag(cmd)
	s.addFlags(cmd, "Look in")
	return cmd
}

func newConfigCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	s := newSource(streams, nil)
	var path string
	cmd := &cobra.Command{
		Use:     "config CHECKPOINT [-f FILE|DIR|-]...",
		Short:   "Print a checkpoint's configuration, or another file of it",
		Long:    configHelp,
		Example: fmt.Sprintf(configExamples, name),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := restore(cmd.Context(), s, args)
			if err != nil {
				return err
			}
			text, err := found[0].Text(path)
			if err != nil {
				return err
			}
			_, err = streams.Out.Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&path, "path", "", "Path of a file in place of the configuration.")
	s.addFlags(cmd, "Look in")
	return cmd
}

// restore reads once and restores what is named.
func restore(ctx context.Context, s *source, names []string) ([]*inspect.Restored, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	inventory, err := s.inventory(ctx)
	if err != nil {
		return nil, err
	}
	var found []*inspect.Restored
	for _, name := range names {
		restored, err := inventory.Restore(name)
		if err != nil {
			return nil, err
		}
		found = append(found, restored)
	}
	return found, nil
}

// inventory is everything of checkpoints, from files or from the cluster.
func (s *source) inventory(ctx context.Context) (*inspect.Inventory, error) {
	if s.fromFiles() {
		return s.read(ctx, false)
	}
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cluster.Inventory(ctx)
}
