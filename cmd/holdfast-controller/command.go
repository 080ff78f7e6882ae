package main

import (
	"flag"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/controller"
)

func newCommand() *cobra.Command {
	var options controller.Options
	command := &cobra.Command{
		Use:   "holdfast-controller",
		Short: "Render, deploy and retain the configuration of an HAProxy fleet",
		Long: "holdfast-controller serves one HAProxyTemplateConfig: it renders the template over the resources\n" +
			"it watches, lets HAProxy check the output, brings it to every proxy pod's agent, and stores what\n" +
			"the pods acknowledged. Run two or more; one leads.",
		Example: "  # in a pod, with the downward API's POD_NAME, POD_NAMESPACE and POD_IP\n" +
			"  holdfast-controller --template=edge -v=2\n\n" +
			"  # from a workstation, against one namespace\n" +
			"  holdfast-controller --kubeconfig=$HOME/.kube/config --namespace=edge --template=edge \\\n" +
			"    --agent-cert-dir=./controller-tls --health-address=127.0.0.1:8081",
		Args:              cobra.NoArgs,
		Version:           version(),
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(command *cobra.Command, _ []string) error {
			registry := prometheus.NewRegistry()
			registry.MustRegister(
				collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
			c, err := controller.New(command.Context(), options, registry)
			if err != nil {
				return err
			}
			return c.Run(command.Context())
		},
	}
	options.AddFlags(command.Flags(), os.Getenv)
	logging := flag.NewFlagSet("logging", flag.ContinueOnError)
	klog.InitFlags(logging)
	for _, name := range []string{"v", "vmodule"} {
		command.Flags().AddGoFlag(logging.Lookup(name))
	}
	command.AddCommand(newGateCommand())
	return command
}

// version is what the build recorded about itself.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
