package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/pkg/agent/server"
)

func newInit() *cobra.Command {
	var dir, bootstrap string
	command := &cobra.Command{
		Use:   "init",
		Short: "Lay out the bootstrap set, unless a set is current already",
		Example: "  holdfast-agent init --dir=/var/lib/holdfast\n" +
			"  holdfast-agent init --bootstrap=/etc/holdfast/bootstrap.cfg",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var config []byte
			if bootstrap != "" {
				var err error
				if config, err = os.ReadFile(bootstrap); err != nil {
					return fmt.Errorf("reading the bootstrap configuration: %w", err)
				}
			}
			return server.Initialise(command.Context(), dir, config)
		},
	}
	command.Flags().StringVar(&dir, "dir", defaultDir, "folder shared with HAProxy")
	command.Flags().StringVar(&bootstrap, "bootstrap", "",
		"file with the configuration to start from; built in: /healthz 200 and /ready 503 on ${POD_IP}:8404")
	return command
}
