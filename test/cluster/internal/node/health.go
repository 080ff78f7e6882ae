package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/test/cluster/internal/probes"
	"github.com/holdfast-project/holdfast/test/cluster/internal/process"
)

// firstQuestion gives a process a moment to listen: asked sooner, it would fail
// and wait a whole period for the next chance.
const firstQuestion = 200 * time.Millisecond

// probe runs the container's probes until the context ends: the startup probe
// first, then the other two together.
func (c *container) probe(ctx context.Context, running *process.Process, unhealthy chan<- string) {
	var workers sync.WaitGroup
	defer workers.Wait()
	fail := func(kind string) {
		select {
		case unhealthy <- "failed its " + kind + " probe":
		default: // it is being restarted already
		}
	}
	if spec := c.spec.StartupProbe; spec != nil {
		up := false
		c.worker(spec, running, "Startup", false, func(ok bool) {
			if up = ok; !ok {
				fail("startup")
			}
		}).Run(ctx, true)
		if !up {
			return
		}
		c.set(func() { c.started, c.ready = true, c.spec.ReadinessProbe == nil })
		c.signalOnce.Do(func() { close(c.startedOnce) })
	}
	if spec := c.spec.ReadinessProbe; spec != nil {
		worker := c.worker(spec, running, "Readiness", false, func(ok bool) { c.set(func() { c.ready = ok }) })
		workers.Go(func() { worker.Run(ctx, false) })
	}
	if spec := c.spec.LivenessProbe; spec != nil {
		// Once the pod is asked to end, nobody restarts its containers.
		living, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(c.stop(), cancel)
		worker := c.worker(spec, running, "Liveness", true, func(ok bool) {
			if !ok {
				fail("liveness")
			}
		})
		// A process that has only just started is not dead yet.
		worker.First = probes.Period(spec)
		workers.Go(func() {
			defer stop()
			defer cancel()
			worker.Run(living, false)
		})
	}
}

func (c *container) worker(spec *corev1.Probe, running *process.Process, kind string, initial bool, decided func(bool)) probes.Worker {
	target := c.target(running)
	return probes.Worker{
		Spec:    spec,
		Initial: initial,
		First:   firstQuestion,
		Ask:     func(ctx context.Context) error { return c.pod.prober.Ask(ctx, spec, target) },
		Failed: func(err error) {
			c.pod.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: container %s: %v", kind, c.spec.Name, err))
		},
		Decided: decided,
	}
}

func (c *container) target(running *process.Process) probes.Target {
	return probes.Target{
		PodIP:     c.pod.object().Status.PodIP,
		Container: c.spec,
		Exec: func(ctx context.Context, command []string, output *bytes.Buffer) (int, error) {
			return running.Exec(ctx, command, process.Streams{Out: output, Err: output})
		},
	}
}

func (c *container) postStart(ctx context.Context, running *process.Process) error {
	if c.spec.Lifecycle == nil || c.spec.Lifecycle.PostStart == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stop(), cancel)()
	return c.hook(ctx, running, c.spec.Lifecycle.PostStart)
}

// preStop runs the hook within the limit; a hook that fails is told, and the
// container ends all the same.
func (c *container) preStop(ctx context.Context, running *process.Process, limit context.Context) {
	if c.spec.Lifecycle == nil || c.spec.Lifecycle.PreStop == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(limit, cancel)()
	if err := c.hook(ctx, running, c.spec.Lifecycle.PreStop); err != nil {
		c.pod.event(corev1.EventTypeWarning, "FailedPreStopHook", fmt.Sprintf("container %s: %v", c.spec.Name, err))
	}
}

func (c *container) hook(ctx context.Context, running *process.Process, handler *corev1.LifecycleHandler) error {
	switch {
	case handler.Exec != nil:
		var output bytes.Buffer
		code, err := running.Exec(ctx, handler.Exec.Command, process.Streams{Out: &output, Err: &output})
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, output.String())
		}
		return nil
	case handler.HTTPGet != nil:
		return c.pod.prober.Ask(ctx, &corev1.Probe{
			ProbeHandler:   corev1.ProbeHandler{HTTPGet: handler.HTTPGet},
			TimeoutSeconds: corev1.DefaultTerminationGracePeriodSeconds,
		}, c.target(running))
	case handler.Sleep != nil:
		return sleep(ctx, handler.Sleep.Seconds)
	}
	return errors.New("this kind of hook is not supported")
}

func sleep(ctx context.Context, seconds int64) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(seconds) * time.Second):
		return nil
	}
}
