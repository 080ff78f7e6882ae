package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

func newDrain() *cobra.Command {
	var dir string
	var bound time.Duration
	command := &cobra.Command{
		Use:     "drain",
		Short:   "Wait until HAProxy has no open connections, for a preStop hook",
		Example: "  holdfast-agent drain --bound=30s",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return drain(command.Context(), command.OutOrStdout(), dir, bound)
		},
	}
	command.Flags().StringVar(&dir, "dir", defaultDir, "folder shared with the agent")
	command.Flags().DurationVar(&bound, "bound", 10*time.Second, "longest wait, at most 5m")
	return command
}

// drain asks the agent through its local socket and prints what it answers.
func drain(ctx context.Context, out io.Writer, dir string, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound+10*time.Second)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", filepath.Join(dir, "run", "agent.sock"))
	}}
	defer transport.CloseIdleConnections()
	query := url.Values{"bound": {bound.String()}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+api.RouteDrain+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking the agent: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("reading the agent's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent refused: %s", answer)
	}
	_, err = out.Write(answer)
	return err
}
