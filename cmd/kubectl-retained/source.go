package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/inspect"
)

// maxLevel is the last log level at which the client library logs no bodies,
// which hold key bytes.
const maxLevel = 7

var errContradiction = errors.New("-A and -n contradict each other")

// source is where a command reads from and how it prints: what all have in common.
type source struct {
	config        *genericclioptions.ConfigFlags
	files         []string
	formats       []string
	output        string
	allNamespaces bool
	// originals has files read so that they can be exported again.
	originals bool
	streams   genericiooptions.IOStreams
}

func newSource(streams genericiooptions.IOStreams, formats []string) *source {
	s := &source{config: genericclioptions.NewConfigFlags(true), formats: formats, streams: streams}
	// Only discovery uses a cache, and nothing is discovered here.
	s.config.CacheDir = nil
	return s
}

// addFlags adds the flags of kubectl and our own. What -A does is said in verb;
// without one the command has no such flag.
func (s *source) addFlags(cmd *cobra.Command, verb string) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&s.files, "filename", "f", nil, "File, folder (read recursively for .yaml, .yml and .json) or - for standard input. May be repeated.")
	if verb != "" {
		flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, verb+" all namespaces. Files are read for all namespaces unless -n is given.")
	}
	s.config.AddFlags(flags)
	logging := flag.NewFlagSet("logging", flag.ContinueOnError)
	klog.InitFlags(logging)
	flags.AddGoFlag(logging.Lookup("v"))
	if len(s.formats) == 0 {
		return // text has no other form
	}
	flags.StringVarP(&s.output, "output", "o", "table", "Output format: "+strings.Join(s.formats, ", ")+".")
	complete := cobra.FixedCompletions(s.formats, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(fmt.Sprintf("a flag that was just added is not there: %v", err))
	}
}

// check refuses what no command can do, and levels at which whole answers would be
// logged.
func (s *source) check(ctx context.Context) error {
	if len(s.formats) > 0 && !slices.Contains(s.formats, s.output) {
		return fmt.Errorf("output format %q is none of %s", s.output, strings.Join(s.formats, ", "))
	}
	if tooDetailed := klog.FromContext(ctx).V(maxLevel + 1); tooDetailed.Enabled() {
		return fmt.Errorf("-v goes up to %d: above, whole answers are logged, and with them keys", maxLevel)
	}
	return nil
}

// fromFiles reports that files are to be read, and no cluster.
func (s *source) fromFiles() bool { return len(s.files) > 0 }

// read reads the files, pods and nodes only with fleet.
func (s *source) read(ctx context.Context, fleet bool) (*inspect.Inventory, error) {
	files := inspect.Files{Paths: s.files, Stdin: s.streams.In, Namespace: *s.config.Namespace, Fleet: fleet, Originals: s.originals}
	if s.allNamespaces && files.Namespace != "" {
		return nil, errContradiction
	}
	inventory, err := files.Read()
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(1).Info("Ignored objects of other kinds", "count", inventory.Ignored())
	return inventory, nil
}

// connection is where the flags lead: a cluster, and a namespace or all of them.
func (s *source) connection() (config *rest.Config, namespace string, err error) {
	if namespace, _, err = s.config.ToRawKubeConfigLoader().Namespace(); err != nil {
		return nil, "", err
	}
	if s.allNamespaces {
		namespace = ""
	}
	config, err = s.config.ToRESTConfig()
	return config, namespace, err
}

// cluster is the one that the flags lead to.
func (s *source) cluster() (*inspect.Cluster, error) {
	config, namespace, err := s.connection()
	if err != nil {
		return nil, err
	}
	return inspect.NewCluster(config, namespace)
}
