package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-project/holdfast/test/cluster/internal/process/entry"
)

const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// maxFailureBytes bounds what a container that failed to start may tell.
const maxFailureBytes = 64 << 10

// Exit is how a container ended.
type Exit struct {
	Code     int
	Signal   int
	Finished time.Time
}

// Process is one running container.
type Process struct {
	// PID is its number for the node.
	PID     int
	Started time.Time

	spec  entry.Spec
	pidfd int
	done  chan struct{}
	exit  Exit
}

// Start starts a container and answers when its command has taken over. A
// *entry.Failure says why it did not. Its output goes to the given file.
func Start(spec entry.Spec, output *os.File) (*Process, error) {
	if err := os.MkdirAll(spec.Scratch, 0o711); err != nil {
		return nil, fmt.Errorf("creating scratch folder: %w", err)
	}
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("creating pipe: %w", err)
	}
	defer specRead.Close()
	defer specWrite.Close()
	failRead, failWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("creating pipe: %w", err)
	}
	defer failRead.Close()
	p := &Process{spec: spec, pidfd: -1, done: make(chan struct{})}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{entry.Marker}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{specRead, failWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true, PidFD: &p.pidfd}
	err = cmd.Start()
	_ = failWrite.Close()
	if err != nil {
		_ = os.RemoveAll(spec.Scratch)
		return nil, fmt.Errorf("creating process: %w", err)
	}
	p.PID, p.Started = cmd.Process.Pid, time.Now()
	go p.wait(cmd)
	if err := handOver(specWrite, failRead, spec); err != nil {
		p.Kill()
		<-p.done
		return nil, err
	}
	return p, nil
}

// handOver gives the entry its description and waits for its verdict.
func handOver(to io.WriteCloser, from io.Reader, spec entry.Spec) error {
	if err := json.NewEncoder(to).Encode(spec); err != nil {
		return fmt.Errorf("describing container: %w", err)
	}
	_ = to.Close()
	text, err := io.ReadAll(io.LimitReader(from, maxFailureBytes))
	if err != nil {
		return fmt.Errorf("waiting for container: %w", err)
	}
	if len(text) == 0 {
		return nil
	}
	failure := &entry.Failure{}
	if err := json.Unmarshal(text, failure); err != nil {
		return fmt.Errorf("reading container's failure: %w", err)
	}
	return failure
}

func (p *Process) wait(cmd *exec.Cmd) {
	defer close(p.done)
	err := cmd.Wait()
	p.exit = exitOf(cmd.ProcessState, err)
	_ = syscall.Close(p.pidfd)
	_ = os.RemoveAll(p.spec.Scratch)
}

func exitOf(state *os.ProcessState, err error) Exit {
	exit := Exit{Finished: time.Now()}
	var status syscall.WaitStatus
	if state != nil {
		status, _ = state.Sys().(syscall.WaitStatus)
	}
	switch {
	case state == nil && err != nil:
		exit.Code = 1
	case status.Signaled():
		exit.Signal = int(status.Signal())
		exit.Code = 128 + exit.Signal
	default:
		exit.Code = status.ExitStatus()
	}
	return exit
}

// Done is closed when the container has ended and its files are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit answers how it ended; only valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends a signal to the container's first process, which may ignore it.
func (p *Process) Signal(signal syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(p.PID, signal)
	}
}

// Kill ends the container and every process in it.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL) }

// ErrEnded says that there is no container to run a command in any more.
var ErrEnded = errors.New("the container has ended")
