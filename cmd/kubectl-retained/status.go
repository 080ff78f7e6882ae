package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
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

type statusOptions struct {
	config        *genericclioptions.ConfigFlags
	files         []string
	output        string
	allNamespaces bool
	streams       genericiooptions.IOStreams
}

func newStatusCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	o := &statusOptions{config: genericclioptions.NewConfigFlags(true), streams: streams}
	// Only discovery uses a cache, and nothing is discovered here.
	o.config.CacheDir = nil
	cmd := &cobra.Command{
		Use:     "status [-f FILE|DIR|-]...",
		Short:   "Show templates, intents, checkpoints and pods on one screen",
		Long:    statusHelp,
		Example: fmt.Sprintf(statusExamples, name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := o.status(cmd.Context())
			if err != nil {
				return err
			}
			*code = exitCodes[status.Answer()]
			return status.Print(streams.Out, o.output)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "File, folder (read recursively for .yaml, .yml and .json) or - for standard input. May be repeated.")
	flags.StringVarP(&o.output, "output", "o", "table", "Output format: "+strings.Join(inspect.DrillFormats, ", ")+".")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Show all namespaces. Files are read for all namespaces unless -n is given.")
	o.config.AddFlags(flags)
	addVerbosity(flags)
	completeFormats(cmd, inspect.DrillFormats)
	return cmd
}

func (o *statusOptions) status(ctx context.Context) (*inspect.Status, error) {
	if !slices.Contains(inspect.DrillFormats, o.output) {
		return nil, fmt.Errorf("output format %q is none of %s", o.output, strings.Join(inspect.DrillFormats, ", "))
	}
	if err := checkVerbosity(ctx); err != nil {
		return nil, err
	}
	if len(o.files) > 0 {
		files := inspect.Files{Paths: o.files, Stdin: o.streams.In, Namespace: *o.config.Namespace, Fleet: true}
		if o.allNamespaces && files.Namespace != "" {
			return nil, errContradiction
		}
		inventory, err := files.Read()
		if err != nil {
			return nil, err
		}
		return inspect.NewStatus(ctx, inventory, time.Time{})
	}
	cluster, err := clusterFor(o.config, o.allNamespaces)
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cluster.Status(ctx, time.Now())
}
