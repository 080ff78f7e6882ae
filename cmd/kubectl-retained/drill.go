package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/inspect"
)

const drillHelp = `Would replacement pods start now, if nothing could be rendered?

Runs every check of a recovery that can be run without touching anything: the
recorded intent, the Leases that fence it, the pointer, the checkpoint down to the
last byte, and what is stored of the pods; and with --gate, HAProxy's own check by
the binary on this machine. It prints each check with its result and what to do,
down to the pod on a dead node that has to be deleted.

It writes nothing to the cluster and talks to no pod: a pod may have changed since
it was last reported. With --gate the checkpoint, keys included, is laid out in a
folder that only you can read, and removed before the answer is printed.

TEMPLATE may be left out if there is only one.

Exit codes:
  0  replacement pods would start
  1  they would not
  2  that is not known: something could not be read, or proves nothing
  3  wrong usage, or input that cannot be read`

const drillExamples = `  # Ask for the only template of a namespace
  %[1]s drill -n edge

  # Ask for one of several, HAProxy's check included
  %[1]s drill edge -n edge --gate

  # Ask of an export; without pods and nodes the fleet is Unknown
  kubectl get htplcfg,hpcfg,hpmap,hpgf,hpcl,leases,secrets,pods -n edge -o yaml > edge.yaml
  kubectl get nodes -o yaml > nodes.yaml
  %[1]s drill -f edge.yaml -f nodes.yaml

  # In a script
  %[1]s drill -n edge -o json > drill.json || echo "edge could not replace its pods"`

// exitCodes of answers. They are documented in the help.
var exitCodes = map[inspect.Answer]int{inspect.AnswerYes: 0, inspect.AnswerNo: 1, inspect.AnswerUnknown: 2}

type drillOptions struct {
	*source
	gate    bool
	haproxy string
}

func newDrillCommand(name string, streams genericiooptions.IOStreams, code *int) *cobra.Command {
	o := &drillOptions{source: newSource(streams, inspect.DrillFormats)}
	cmd := &cobra.Command{
		Use:     "drill [TEMPLATE] [-f FILE|DIR|-]...",
		Short:   "Ask whether replacement pods would start now",
		Long:    drillHelp,
		Example: fmt.Sprintf(drillExamples, name),
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := o.drill(cmd.Context(), args)
			if err != nil {
				return err
			}
			*code = exitCodes[report.Answer]
			return report.Print(streams.Out, o.output)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.gate, "gate", false, "Have the HAProxy binary on this machine check the checkpoint. It should be of the version that the proxies run.")
	flags.StringVar(&o.haproxy, "haproxy", "haproxy", "HAProxy binary for --gate.")
	o.addFlags(cmd, "")
	return cmd
}

func (o *drillOptions) drill(ctx context.Context, args []string) (*inspect.DrillReport, error) {
	if err := o.check(ctx); err != nil {
		return nil, err
	}
	settings := inspect.DrillSettings{Template: strings.Join(args, "")}
	if o.gate {
		// A signal must not leave the gate's folder behind: it holds keys.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		settings.Gate = askGate(gate.New(gate.Config{Binary: o.haproxy}))
	}
	if o.fromFiles() {
		inventory, err := o.read(ctx, true)
		if err != nil {
			return nil, err
		}
		return inspect.Drill(ctx, inventory, settings)
	}
	settings.Now = time.Now()
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cluster.Drill(ctx, settings)
}

// askGate makes the controller's gate answer a drill.
func askGate(g *gate.Gate) func(context.Context, *checkpoint.Output) (inspect.GateVerdict, error) {
	return func(ctx context.Context, output *checkpoint.Output) (inspect.GateVerdict, error) {
		verdict, err := g.Check(ctx, output)
		return inspect.GateVerdict{
			Valid: verdict.Outcome == gate.Valid, Refused: verdict.Outcome == gate.Refused,
			Message: verdict.Message, Version: verdict.Version,
		}, err
	}
}
