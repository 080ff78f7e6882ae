package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
)

// process is one start of a controller.
type process struct {
	// name is unique; pod is what it calls itself in leader election.
	name, pod string
	stop      context.CancelFunc
	done      chan struct{}
	err       error
	// stopping is set by a graceful stop, crashed by a sudden one, and disturbed
	// when the network lost or delayed anything of it while it stopped.
	stopping, crashed, disturbed bool
	stopped                      time.Time // when it was told to stop
	paused                       bool
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// owns reports a holder of the Lease that is this process, or another one under
// its pod's name.
func (p *process) owns(holder string) bool { return strings.HasPrefix(holder, p.pod+"_") }

// start runs a controller under a pod's name. Two may run under one.
func (w *world) start(pod string) *process {
	w.starts[pod]++
	p := &process{name: fmt.Sprintf("%s.%d", pod, w.starts[pod]), pod: pod, done: make(chan struct{})}
	config := w.server.Config(p.name)
	c, err := controller.Assemble(controller.Options{
		Namespace: namespace, Template: templateName, Identity: pod, AgentPort: agentPort,
	}, controller.Parts{
		Config: overNetwork(config, w.network, p.name),
		Agents: &agents{world: w, process: p.name},
		Gate:   modelGate{takes: w.profile.verdict},
	}, prometheus.NewRegistry())
	w.must(err)
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), w.logger(p.name)))
	p.stop = stop
	go func() {
		defer close(p.done)
		p.err = c.Work(ctx)
	}()
	w.processes = append(w.processes, p)
	return p
}

func overNetwork(config *rest.Config, n *network, process string) *rest.Config {
	through := rest.CopyConfig(config)
	through.Transport = &wire{network: n, process: process, server: config.Transport}
	return through
}

// crash ends a process without a drain: from now on nothing it does is seen,
// except what it had sent.
func (w *world) crash(p *process) {
	p.crashed = true
	w.network.kill(p.name)
	p.stop()
}

func (w *world) process(name string) *process {
	for _, p := range w.processes {
		if p.name == name {
			return p
		}
	}
	return nil
}

// running are the processes that act.
func (w *world) running() []*process {
	var all []*process
	for _, p := range w.processes {
		if !p.ended() && !p.crashed {
			all = append(all, p)
		}
	}
	return all
}

// modelGate refuses what says that it should be.
type modelGate struct {
	// takes is how long a check is under way.
	takes time.Duration
}

// refusal is the line that makes an output invalid for HAProxy.
const refusal = "# refuse"

func (g modelGate) Check(ctx context.Context, output *checkpoint.Output) (gate.Verdict, error) {
	timer := time.NewTimer(g.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return gate.Verdict{}, ctx.Err()
	}
	if strings.Contains(string(output.Configuration), refusal) {
		return gate.Verdict{Outcome: gate.Refused, Message: "simulated refusal", Line: 3, Version: "3.0"}, nil
	}
	return gate.Verdict{Outcome: gate.Valid, Version: "3.0"}, nil
}
