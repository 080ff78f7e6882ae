package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/holdfast-project/holdfast/pkg/inspect"
)

const diffHelp = `How do two checkpoints differ? Configuration and files as a unified diff,
certificates and bundles of authorities by their checksums alone.

Both are verified first, and one that is damaged is refused. A checkpoint is named
by its name or the beginning of its checksum. Needs the right to read the stored
objects, Secrets too if there are certificates.

Exit codes:
  0  nothing differs
  1  something does
  3  wrong usage, or a checkpoint that cannot be read or verified`

const diffExamples = `  # What would a recovery undo? The newest against the one before
  %[1]s diff -n edge 4e61de13 c37ac098

  # From an export
  %[1]s diff -f edge.yaml 4e61de13 c37ac098 | less -R`

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
	s := newSource(streams, nil)
	cmd := &cobra.Command{
		Use:     "diff FROM TO [-f FILE|DIR|-]...",
		Short:   "Show how two checkpoints differ",
		Long:    diffHelp,
		Example: fmt.Sprintf(diffExamples, name),
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := restore(cmd.Context(), s, args)
			if err != nil {
				return err
			}
			text := inspect.Diff(found[0], found[1])
			if text != "" {
				*code = 1
			}
			if file, ok := streams.Out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
				text = coloured(text)
			}
			_, err = io.WriteString(streams.Out, text)
			return err
		},
	}
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

// coloured marks what goes red and what comes green, and keeps what was stored from
// giving the terminal orders.
func coloured(diff string) string {
	var out strings.Builder
	for line := range strings.Lines(diff) {
		text := strings.Map(harmless, strings.TrimSuffix(line, "\n"))
		switch {
		case strings.HasPrefix(line, "@@"):
			fmt.Fprintf(&out, "\x1b[36m%s\x1b[0m\n", text)
		case strings.HasPrefix(line, "-"):
			fmt.Fprintf(&out, "\x1b[31m%s\x1b[0m\n", text)
		case strings.HasPrefix(line, "+"):
			fmt.Fprintf(&out, "\x1b[32m%s\x1b[0m\n", text)
		default:
			out.WriteString(text + "\n")
		}
	}
	return out.String()
}

func harmless(r rune) rune {
	if r != '\t' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0) {
		return '?'
	}
	return r
}
