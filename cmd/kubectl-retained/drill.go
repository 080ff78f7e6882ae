package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/inspect"
)

const drillHelp = `Would replacement pods start now, if nothing could be rendered?

Runs every check of a recovery that can be run without touching anything: the
recorded intent, the Leases that fence it, the pointer, the checkpoint down to the
last byte, and what is stored of the pods; and with --gate, HAProxy's own check. It
prints each check with its result and what to do, down to the pod on a dead node
that has to be deleted.

It talks to no pod: a pod may have changed since it was last reported. It writes
nothing to the cluster, except that --gate=cluster runs a Job with the image and the
rights of a controller, which is deleted again. With --gate=local the checkpoint,
keys included, is laid out in a folder that only you can read, and removed before
the answer is printed; with --gate=cluster no key leaves the cluster.

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

  # The same, checked by the very binary that the controllers carry
  %[1]s drill edge -n edge --gate=cluster

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
	gate    string
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
	flags.StringVar(&o.gate, "gate", "", "Have HAProxy check the checkpoint: local asks the binary on this machine, which should be of the version that the proxies run; cluster runs a Job with a controller's image.")
	flags.Lookup("gate").NoOptDefVal = gateLocal
	flags.StringVar(&o.haproxy, "haproxy", "haproxy", "HAProxy binary for --gate=local.")
	o.addFlags(cmd, "")
	return cmd
}

func (o *drillOptions) drill(ctx context.Context, args []string) (*inspect.DrillReport, error) {
	if err := o.check(ctx); err != nil {
		return nil, err
	}
	settings := inspect.DrillSettings{Template: strings.Join(args, "")}
	// A signal must leave nothing behind: the local gate's folder holds keys.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if settings.Gate, err = o.gateOf(); err != nil {
		return nil, err
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
	return cluster.Drill(ctx, settings)
}

// Where HAProxy is asked.
const (
	gateLocal   = "local"
	gateCluster = "cluster"
)

type gateFunc = func(ctx context.Context, name string, output *checkpoint.Output) (inspect.GateVerdict, error)

// gateOf is what --gate asks for, nil without it.
func (o *drillOptions) gateOf() (gateFunc, error) {
	switch o.gate {
	case "":
		return nil, nil
	case gateLocal:
		return askGate(gate.New(gate.Config{Binary: o.haproxy})), nil
	case gateCluster:
		if o.fromFiles() {
			return nil, errors.New("--gate=cluster and -f contradict each other: the Job reads what the cluster holds")
		}
		return o.gateJob()
	}
	return nil, fmt.Errorf("--gate is %q, want %s or %s", o.gate, gateLocal, gateCluster)
}

func (o *drillOptions) gateJob() (gateFunc, error) {
	config, namespace, err := o.connection()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the job: %w", err)
	}
	return inspect.GateJob{Client: client, Namespace: namespace}.Check, nil
}

// askGate makes the controller's gate answer a drill.
func askGate(g *gate.Gate) gateFunc {
	return func(ctx context.Context, _ string, output *checkpoint.Output) (inspect.GateVerdict, error) {
		verdict, err := g.Check(ctx, output)
		return inspect.GateVerdict{
			Valid: verdict.Outcome == gate.Valid, Refused: verdict.Outcome == gate.Refused,
			Message: verdict.Message, Version: verdict.Version,
		}, err
	}
}
