package main

import (
	"flag"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/server"
)

const defaultDir = "/var/lib/holdfast"

// newCommand is the command with its subcommands; run is the default.
func newCommand() *cobra.Command {
	run := newRun()
	root := &cobra.Command{
		Use:   "holdfast-agent",
		Short: "Own HAProxy's files and reloads in a proxy pod",
		Long: "holdfast-agent applies outputs of holdfast-controller to the HAProxy in its pod and proves\n" +
			"what runs there. HAProxy starts from the same folder, as\n\n" +
			"  haproxy -W -dr -S DIR/run/master.sock,level,admin -f DIR/current/haproxy.cfg -f DIR/nonce.cfg\n\n" +
			"and as the same user: keys are readable by their owner alone.",
		Example: "  # init container: lay out the bootstrap configuration\n" +
			"  holdfast-agent init\n\n" +
			"  # container beside HAProxy\n" +
			"  POD_IP=10.244.0.7 POD_NAME=edge-0 POD_UID=... holdfast-agent run -v=2\n\n" +
			"  # preStop hook\n" +
			"  holdfast-agent drain --bound=30s",
		Args:              cobra.NoArgs,
		Version:           version(),
		RunE:              run.RunE,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Flags().AddFlagSet(run.Flags())
	logging := flag.NewFlagSet("logging", flag.ContinueOnError)
	klog.InitFlags(logging)
	for _, name := range []string{"v", "vmodule"} {
		root.PersistentFlags().AddGoFlag(logging.Lookup(name))
	}
	root.AddCommand(run, newInit(), newDrain())
	return root
}

func newRun() *cobra.Command {
	var options server.Options
	command := &cobra.Command{
		Use:   "run",
		Short: "Serve the agent until a signal ends it (the default)",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return server.RunWithOptions(command.Context(), options, version())
		},
	}
	options.AddFlags(command.Flags(), os.Getenv)
	return command
}

// version is what the build recorded about itself.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
