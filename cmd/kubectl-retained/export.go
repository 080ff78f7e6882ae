package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/version"

	"github.com/holdfast-project/holdfast/pkg/inspect"
)

const exportHelp = `Write a checkpoint with its evidence into a folder, or into an archive if its
name ends in .tar: the stored objects, the configuration and files as they were on the
proxies, and a manifest with digests, the verdict, and what was left out.

The folder can be verified again, anywhere: verify -f FOLDER. A damaged checkpoint is
exported too, without the files that do not verify.

Certificates, keys and bundles of authorities are left out unless --with-secrets is
given, which needs the right to read those Secrets. All files are for you alone, since
a configuration may hold passwords. Nothing is overwritten, and nothing is there before
all of it is.

Exit codes:
  0  exported, and it verifies
  1  exported, and it is damaged
  2  exported, and not all of it could be judged
  3  not exported`

const exportExamples = `  # Evidence for a ticket, by the beginning of the checksum
  %[1]s export 4e61de13 -n edge -o checkpoint.tar

  # With keys, to keep apart from the cluster
  %[1]s export 4e61de13 -n edge --with-secrets -o checkpoint

  # Verify it again without a cluster
  %[1]s verify -f checkpoint`

type exportOptions struct {
	*source
	to      string
	secrets bool
}

func newExportCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	o := &exportOptions{source: newSource(streams, nil)}
	cmd := &cobra.Command{
		Use:     "export CHECKPOINT -o DIR|FILE.tar [-f FILE|DIR|-]...",
		Short:   "Write a checkpoint with its evidence into a folder or an archive",
		Long:    exportHelp,
		Example: fmt.Sprintf(exportExamples, name),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			export, err := o.export(ctx, args[0])
			if err != nil {
				return err
			}
			*code = int(export.Outcome())
			return export.PrintSummary(streams.Out, streams.ErrOut, o.to)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.to, "output", "o", "", "Folder, or archive if it ends in .tar. There must be nothing of that name.")
	flags.BoolVar(&o.secrets, "with-secrets", false, "Take in certificates, keys and bundles of authorities.")
	o.addFlags(cmd, "Look in")
	return cmd
}

func (o *exportOptions) export(ctx context.Context, which string) (*inspect.Export, error) {
	if err := o.check(ctx); err != nil {
		return nil, err
	}
	if o.to == "" {
		return nil, errors.New("give a folder or an archive with -o")
	}
	export, err := o.read(ctx, inspect.ExportSettings{
		Checkpoint: which, Secrets: o.secrets, Now: time.Now(), Version: "kubectl-retained " + version.Get().GitVersion,
	})
	if err != nil {
		return nil, err
	}
	return export, export.Write(ctx, o.to)
}

func (o *exportOptions) read(ctx context.Context, settings inspect.ExportSettings) (*inspect.Export, error) {
	if o.fromFiles() {
		o.originals = true
		inventory, err := o.source.read(ctx, false)
		if err != nil {
			return nil, err
		}
		return inspect.NewExport(inventory, settings)
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	return cluster.Export(ctx, settings)
}
