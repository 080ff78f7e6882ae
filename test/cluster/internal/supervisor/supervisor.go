package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/pki"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

const (
	// NodeName is the name of the one node.
	NodeName = "devnode"
	stopTime = 9 * time.Second
)

// Run is the life of a supervisor. Progress and the outcome of the start go to
// report; Run returns when the cluster has ended.
func Run(dir state.Dir, binDir string, report io.WriteCloser) error {
	// The namespace's first process dies with the thread that started it, so
	// this goroutine keeps its thread until the end.
	runtime.LockOSThread()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	reporter := newReporter(report)
	err := run(ctx, dir, binDir, reporter)
	reporter.finish(err)
	return err
}

func run(ctx context.Context, dir state.Dir, binDir string, reporter *reporter) error {
	lock, err := dir.LockSupervisor()
	if err != nil {
		return fmt.Errorf("taking over the state directory: %w", err)
	}
	defer lock.Release()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("choosing a port on 127.0.0.1: %w", err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	info := state.Info{PID: os.Getpid(), Port: port, BinDir: binDir, StartedAt: time.Now()}
	if err := dir.Create(info); err != nil {
		return err
	}
	reporter.step("making keys and certificates")
	err = pki.Generate(dir.Path("pki"), dir.Kubeconfig(), pki.Addresses{
		APIServer: netns.APIServerIP, Node: netns.NodeIP, NodeName: NodeName, HostPort: port,
	})
	if err != nil {
		return err
	}
	reporter.step("creating the cluster's own namespaces")
	cluster, err := startInside(dir, reporter)
	if err != nil {
		return err
	}
	defer cluster.stop()
	go forwardAll(ctx, listener, dir.APISocket())
	ready := make(chan error, 1)
	go func() { ready <- waitReady(ctx, dir.Kubeconfig(), reporter) }()
	return supervise(ctx, dir, info, cluster, ready, reporter)
}

// supervise waits for readiness first and for the end after it.
func supervise(ctx context.Context, dir state.Dir, info state.Info, cluster *insideProcess, ready <-chan error, reporter *reporter) error {
	for {
		select {
		case err := <-ready:
			if err != nil {
				return err
			}
			info.Ready = true
			if err := dir.Write(info); err != nil {
				return err
			}
			reporter.finish(nil)
			ready = nil
		case <-cluster.ended:
			return cluster.failure()
		case <-ctx.Done():
			if ready != nil {
				return errors.New("stopped before it was ready")
			}
			return nil
		}
	}
}

// insideProcess is the first process of the namespace, seen from outside.
type insideProcess struct {
	cmd      *exec.Cmd
	lifeline *os.File
	ended    chan struct{}
	last     string
	err      error
}

func startInside(dir state.Dir, reporter *reporter) (*insideProcess, error) {
	lifelineRead, lifelineWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("creating lifeline: %w", err)
	}
	defer lifelineRead.Close()
	var output io.ReadCloser
	cmd, err := netns.Start(func() *exec.Cmd {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"devcluster", "component", "inside", string(dir)}
		cmd.ExtraFiles = []*os.File{lifelineRead}
		cmd.Stderr = os.Stderr
		output, err = cmd.StdoutPipe()
		return cmd
	})
	if err != nil {
		_ = lifelineWrite.Close()
		return nil, err
	}
	p := &insideProcess{cmd: cmd, lifeline: lifelineWrite, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			p.last = lines.Text()
			reporter.step(p.last)
		}
		p.err = cmd.Wait()
	}()
	return p, nil
}

func (p *insideProcess) failure() error {
	if p.err != nil {
		return fmt.Errorf("the cluster ended: %s (%w)", p.last, p.err)
	}
	return fmt.Errorf("the cluster ended: %s", p.last)
}

// stop lets pods end, then cuts the lifeline.
func (p *insideProcess) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTime):
		_ = p.lifeline.Close()
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}
