package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/cluster/internal/containerlog"
	"github.com/holdfast-project/holdfast/test/cluster/internal/process"
	"github.com/holdfast-project/holdfast/test/cluster/internal/process/entry"
)

type role int

const (
	roleMain role = iota
	roleInit
	roleSidecar
)

// startErrorCode is what Kubernetes shows for a command that cannot be run.
const startErrorCode = 128

// container is one container of a pod over all its starts. What status shows
// is guarded by the pod's mutex.
type container struct {
	pod    *pod
	spec   *corev1.Container
	role   role
	policy corev1.RestartPolicy
	// startedOnce is closed when a sidecar has first come up.
	startedOnce chan struct{}
	signalOnce  sync.Once

	state, last    corev1.ContainerState
	ready, started bool
	restarts       int32
	attempts       int
	id             string
	process        *process.Process
	log, previous  *containerlog.Log
}

func newContainers(p *pod, object *corev1.Pod) []*container {
	var list []*container
	add := func(spec *corev1.Container, r role) {
		list = append(list, &container{
			pod: p, spec: spec, role: r, policy: object.Spec.RestartPolicy,
			startedOnce: make(chan struct{}),
			state:       corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
		})
	}
	for i := range object.Spec.InitContainers {
		spec := &object.Spec.InitContainers[i]
		if spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(spec, roleSidecar)
		} else {
			add(spec, roleInit)
		}
	}
	for i := range object.Spec.Containers {
		add(&object.Spec.Containers[i], roleMain)
	}
	if len(object.Spec.InitContainers) == 0 {
		for _, c := range list {
			c.state.Waiting.Reason = "ContainerCreating"
		}
	}
	return list
}

// stop is the context that asks this container to end.
func (c *container) stop() context.Context {
	if c.role == roleSidecar {
		return c.pod.sidecarStop
	}
	return c.pod.stop
}

// waitStarted waits until a sidecar is up; false when the pod ends first.
func (c *container) waitStarted() bool {
	select {
	case <-c.startedOnce:
		return true
	case <-c.pod.stop.Done():
		return false
	}
}

// set changes what status shows.
func (c *container) set(change func()) {
	c.pod.mu.Lock()
	change()
	c.pod.mu.Unlock()
	c.pod.poke()
}

// once starts the container and stays until its process has ended.
func (c *container) once() outcome {
	running, err := c.start()
	if err != nil {
		return c.failed(err)
	}
	c.pod.event(corev1.EventTypeNormal, "Started", "Started container "+c.spec.Name)
	o := c.attend(running)
	<-c.log.Done()
	c.ended(running, o)
	return o
}

func (c *container) start() (*process.Process, error) {
	spec, err := c.describe()
	if err != nil {
		return nil, &entry.Failure{Reason: "CreateContainerConfigError", Message: err.Error()}
	}
	log, output, err := c.newLog()
	if err != nil {
		return nil, err
	}
	running, err := process.Start(spec, output)
	_ = output.Close()
	if err != nil {
		return nil, err
	}
	id := uuid.NewString()
	c.set(func() {
		if c.id != "" {
			c.restarts++
		}
		c.id, c.process = id, running
		c.previous, c.log = c.log, log
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(running.Started)}}
		c.started = c.spec.StartupProbe == nil
		c.ready = c.started && c.spec.ReadinessProbe == nil
	})
	if c.started {
		c.signalOnce.Do(func() { close(c.startedOnce) })
	}
	return running, nil
}

// newLog starts the log of the next run and deletes the one before the last.
func (c *container) newLog() (*containerlog.Log, *os.File, error) {
	folder := filepath.Join(c.pod.folder(), "logs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, fmt.Errorf("creating log folder: %w", err)
	}
	c.attempts++
	name := func(n int) string { return filepath.Join(folder, fmt.Sprintf("%s-%d.log", c.spec.Name, n)) }
	_ = os.Remove(name(c.attempts - 2))
	_ = os.Remove(name(c.attempts-2) + ".1")
	return containerlog.New(name(c.attempts))
}

// failed records that there was no process.
func (c *container) failed(err error) outcome {
	failure := &entry.Failure{}
	if !errors.As(err, &failure) {
		failure = &entry.Failure{Reason: entry.ReasonCreate, Message: err.Error()}
	}
	c.pod.event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Container %s: %s", c.spec.Name, failure.Message))
	if failure.Reason != entry.ReasonRun {
		return outcome{reason: failure.Reason, message: failure.Message}
	}
	// A command that cannot be run counts as one that ended at once.
	now := metav1.Now()
	c.set(func() {
		if c.id != "" {
			c.restarts++
		}
		c.id = uuid.NewString()
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: startErrorCode, Reason: "StartError", Message: failure.Message,
			StartedAt: now, FinishedAt: now, ContainerID: containerID(c.id),
		}}
	})
	return outcome{started: true, code: startErrorCode, reason: entry.ReasonRun, message: failure.Message}
}

// attend runs hooks and probes and waits for the end, ours or its own.
func (c *container) attend(running *process.Process) outcome {
	ctx, cancel := context.WithCancel(c.pod.ctx)
	var attendants sync.WaitGroup
	defer attendants.Wait()
	defer cancel()
	unhealthy := make(chan string, 1)
	attendants.Go(func() { c.probe(ctx, running, unhealthy) })
	if err := c.postStart(ctx, running); err != nil {
		select {
		case unhealthy <- "postStart hook failed: " + err.Error():
		default:
		}
	}
	select {
	case <-running.Done():
		return outcome{started: true, code: running.Exit().Code}
	case <-c.stop().Done():
		c.pod.event(corev1.EventTypeNormal, "Killing", "Stopping container "+c.spec.Name)
		c.end(ctx, running, c.pod.kill)
	case why := <-unhealthy:
		c.pod.event(corev1.EventTypeNormal, "Killing", fmt.Sprintf("Container %s %s, will be restarted", c.spec.Name, why))
		limit, done := context.WithTimeout(c.pod.kill, c.grace())
		c.end(ctx, running, limit)
		done()
	}
	return outcome{started: true, code: running.Exit().Code, demanded: true}
}

// grace is what a container gets when only it is restarted.
func (c *container) grace() time.Duration {
	if probe := c.spec.LivenessProbe; probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	if seconds := c.pod.object().Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// end runs the preStop hook, asks the process to end, and kills it when the
// limit is reached; the hook's time counts.
func (c *container) end(ctx context.Context, running *process.Process, limit context.Context) {
	c.preStop(ctx, running, limit)
	running.Signal(syscall.SIGTERM)
	select {
	case <-running.Done():
	case <-limit.Done():
		running.Kill()
		<-running.Done()
	}
}

// ended records how a run went.
func (c *container) ended(running *process.Process, o outcome) {
	exit := running.Exit()
	reason := "Error"
	if exit.Code == 0 {
		reason = "Completed"
	}
	message := o.message
	if message == "" {
		message = c.lastWords(exit.Code)
	}
	c.set(func() {
		c.ready, c.started, c.process = false, false, nil
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(exit.Code), Signal: int32(exit.Signal), Reason: reason, Message: message,
			StartedAt: metav1.NewTime(running.Started), FinishedAt: metav1.NewTime(exit.Finished),
			ContainerID: containerID(c.id),
		}}
	})
	c.pod.logger.Info("Container ended", "container", c.spec.Name, "code", exit.Code, "demanded", o.demanded)
}

// backOff shows why the container is not running while it waits.
func (c *container) backOff(o outcome, delay time.Duration) {
	waiting := &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting container %s", delay, c.spec.Name)}
	if o.reason != "" {
		waiting.Reason, waiting.Message = o.reason, o.message
	}
	c.set(func() {
		if c.state.Terminated != nil {
			c.last = c.state
		}
		c.state = corev1.ContainerState{Waiting: waiting}
	})
}

// settle makes a container that will not run again terminated, if it ever ran.
func (c *container) settle() {
	c.set(func() {
		if c.state.Waiting != nil && c.last.Terminated != nil {
			c.state, c.last = c.last, corev1.ContainerState{}
		}
	})
}

func containerID(id string) string { return "process://" + id }
