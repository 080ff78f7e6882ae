// Command holdfast-apiserver serves what is retained, and whether it would
// work, as an aggregated Kubernetes API.
package main

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // client metrics
	"k8s.io/component-base/version"

	"github.com/holdfast-project/holdfast/pkg/apiserver"
)

// collectAt is how much the heap may grow before it is collected, in percent. The
// process mostly holds views, which live long, and its promise is a small one;
// GOGC in the environment says otherwise.
const collectAt = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	options := apiserver.NewOptions()
	logging := logsapi.NewLoggingConfiguration()
	cmd := &cobra.Command{
		Use:          "holdfast-apiserver",
		Short:        "Serves retained checkpoints and deployment intents as an aggregated Kubernetes API",
		Version:      version.Get().GitVersion,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			logs.InitLogs()
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			return apiserver.Run(genericapiserver.SetupSignalContext(), options)
		},
	}
	options.AddFlags(cmd.Flags())
	logsapi.AddFlags(logging, cmd.Flags())
	return cmd
}
