// Command kubectl-retained answers questions about what is retained, from a
// live cluster or from files, as a kubectl plugin or by itself.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/version"
)

// exitUnusable is the exit code of everything that could not even begin: wrong
// usage, input that cannot be read.
const exitUnusable = 3

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(run(context.Background(), os.Args, streams))
}

// run runs the command line and returns the exit code. Argument 0 decides what
// the usage text calls the program, and whether kubectl asks for completions.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	code := 0
	called := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	cmd := newCommand(displayName(called), streams, &code)
	rest := args[1:]
	if called == "kubectl_complete-retained" {
		// What kubectl runs to complete the arguments of a plugin.
		rest = append([]string{cobra.ShellCompRequestCmd}, rest...)
	}
	cmd.SetArgs(rest)
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	if failed, err := cmd.ExecuteContextC(ctx); err != nil {
		// Nobody is left to tell when standard error is gone too.
		_, _ = fmt.Fprintf(streams.ErrOut, "error: %v\nSee '%s --help'.\n", err, failed.CommandPath())
		return exitUnusable
	}
	return code
}

// displayName is how a user calls the program: plugins are named kubectl-NAME
// and called kubectl NAME.
func displayName(called string) string {
	if strings.HasPrefix(called, "kubectl-") || called == "kubectl_complete-retained" {
		return "kubectl retained"
	}
	return called
}

func newCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kubectl-retained",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Short:         "Look at what is retained of an HAProxy fleet, and whether it would work",
		Version:       version.Get().GitVersion,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(newStatusCommand(name, streams, code), newListCommand(name, streams), newVerifyCommand(name, streams, code), newDrillCommand(name, streams, code),
		newDiffCommand(name, streams, code), newConfigCommand(name, streams),
		newExportCommand(name, streams, code))
	return cmd
}
