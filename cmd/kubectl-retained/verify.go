package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

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

// maxLevel is the last log level at which the client library logs no bodies,
// which hold key bytes.
const maxLevel = 7

type verifyOptions struct {
	config        *genericclioptions.ConfigFlags
	files         []string
	output        string
	allNamespaces bool
	streams       genericiooptions.IOStreams
}

func newVerifyCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	o := &verifyOptions{config: genericclioptions.NewConfigFlags(true), streams: streams}
	// Only discovery uses a cache, and nothing is discovered here.
	o.config.CacheDir = nil
	cmd := &cobra.Command{
		Use:     "verify [-f FILE|DIR|-]...",
		Short:   "Verify checkpoints, from files or from the cluster",
		Long:    verifyHelp,
		Example: fmt.Sprintf(verifyExamples, name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := o.verify(cmd.Context())
			if err != nil {
				return err
			}
			*code = int(report.Outcome())
			printer := inspect.Printer{Out: streams.Out, ErrOut: streams.ErrOut, Format: o.output}
			return printer.Print(report)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "File, folder (read recursively for .yaml, .yml and .json) or - for standard input. May be repeated.")
	flags.StringVarP(&o.output, "output", "o", "table", "Output format: "+strings.Join(inspect.Formats, ", ")+".")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Verify all namespaces. Files are read for all namespaces unless -n is given.")
	o.config.AddFlags(flags)
	addVerbosity(flags)
	completeFormats(cmd, inspect.Formats)
	return cmd
}

func addVerbosity(flags *pflag.FlagSet) {
	logging := flag.NewFlagSet("logging", flag.ContinueOnError)
	klog.InitFlags(logging)
	flags.AddGoFlag(logging.Lookup("v"))
}

func completeFormats(cmd *cobra.Command, formats []string) {
	complete := cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(fmt.Sprintf("a flag that was just added is not there: %v", err))
	}
}

// checkVerbosity refuses levels at which whole answers would be logged.
func checkVerbosity(ctx context.Context) error {
	if tooDetailed := klog.FromContext(ctx).V(maxLevel + 1); tooDetailed.Enabled() {
		return fmt.Errorf("-v goes up to %d: above, whole answers are logged, and with them keys", maxLevel)
	}
	return nil
}

func (o *verifyOptions) verify(ctx context.Context) (*inspect.Report, error) {
	if !slices.Contains(inspect.Formats, o.output) {
		return nil, fmt.Errorf("output format %q is none of %s", o.output, strings.Join(inspect.Formats, ", "))
	}
	if err := checkVerbosity(ctx); err != nil {
		return nil, err
	}
	if len(o.files) > 0 {
		return o.verifyFiles(ctx)
	}
	cluster, err := clusterFor(o.config, o.allNamespaces)
	if err != nil {
		return nil, err
	}
	// Only here: reading files, which may be a terminal, ends at once by default.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cluster.Verify(ctx)
}

var errContradiction = errors.New("-A and -n contradict each other")

// clusterFor is the cluster that the flags of kubectl lead to.
func clusterFor(flags *genericclioptions.ConfigFlags, allNamespaces bool) (*inspect.Cluster, error) {
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	if allNamespaces {
		namespace = ""
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return inspect.NewCluster(config, namespace)
}

func (o *verifyOptions) verifyFiles(ctx context.Context) (*inspect.Report, error) {
	files := inspect.Files{Paths: o.files, Stdin: o.streams.In, Namespace: *o.config.Namespace}
	if o.allNamespaces && files.Namespace != "" {
		return nil, errContradiction
	}
	inventory, err := files.Read()
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(1).Info("Ignored objects of other kinds", "count", inventory.Ignored())
	return inspect.Verify(inventory)
}
