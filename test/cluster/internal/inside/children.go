package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

const (
	restartDelay  = time.Second
	reapInterval  = time.Second
	dialInterval  = 50 * time.Millisecond
	etcdStartTime = 60 * time.Second
	etcdAddress   = "127.0.0.1:2379"
)

// component is one long-lived child. The cluster cannot go on without an
// essential one.
type component struct {
	name      string
	essential bool
}

// children starts processes and reaps those nobody waits for. The mutex is held
// from before a start until the process is known, so that the reaper never
// takes an exit code that somebody waits for.
type children struct {
	dir   state.Dir
	fatal chan error

	mu    sync.Mutex
	known map[int]bool
	node  *exec.Cmd
	ended map[string]chan struct{}
}

func newChildren(dir state.Dir) *children {
	return &children{dir: dir, fatal: make(chan error, 4), known: map[int]bool{}, ended: map[string]chan struct{}{}}
}

func (c *children) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	c.known[cmd.Process.Pid] = true
	return nil
}

func (c *children) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, cmd.Process.Pid)
	return err
}

// reap collects orphans: as the first process we inherit them all.
func (c *children) reap(ctx context.Context) {
	exits := make(chan os.Signal, 16)
	signal.Notify(exits, syscall.SIGCHLD)
	defer signal.Stop(exits)
	ticks := time.NewTicker(reapInterval)
	defer ticks.Stop()
	for {
		for c.reapOne() {
		}
		select {
		case <-ctx.Done():
			return
		case <-exits:
		case <-ticks.C:
		}
	}
}

// reapOne looks before it takes: an exit that somebody waits for is left alone.
func (c *children) reapOne() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
		return false
	}
	pid := exitedPID(&info)
	if pid == 0 || c.known[pid] {
		return false
	}
	_, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return err == nil
}

func (c *children) startAll(ctx context.Context) error {
	progress("starting etcd")
	if err := c.run(ctx, component{"etcd", true}); err != nil {
		return err
	}
	if err := c.waitForEtcd(ctx); err != nil {
		return err
	}
	progress("starting kube-apiserver, kube-controller-manager and the node")
	for _, comp := range []component{{"kube-apiserver", false}, {"kube-controller-manager", false}, {"node", true}} {
		if err := c.run(ctx, comp); err != nil {
			return err
		}
	}
	return nil
}

// run starts a component and looks after it.
func (c *children) run(ctx context.Context, comp component) error {
	cmd, err := c.launch(comp)
	if err != nil {
		return err
	}
	c.mu.Lock()
	ended := make(chan struct{})
	c.ended[comp.name] = ended
	c.mu.Unlock()
	go func() {
		defer close(ended)
		c.keep(ctx, comp, cmd)
	}()
	return nil
}

func (c *children) keep(ctx context.Context, comp component, cmd *exec.Cmd) {
	logger := klog.FromContext(ctx)
	for {
		err := c.wait(cmd)
		if ctx.Err() != nil {
			return
		}
		if comp.essential {
			c.fatal <- fmt.Errorf("%s ended (%w), see %s", comp.name, errOrExit(err), c.dir.Log(comp.name))
			return
		}
		logger.Info("Starting a component again that ended", "component", comp.name, "reason", errOrExit(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartDelay):
		}
		next, err := c.launch(comp)
		if err != nil {
			c.fatal <- err
			return
		}
		cmd = next
	}
}

func (c *children) launch(comp component) (*exec.Cmd, error) {
	log, err := os.OpenFile(c.dir.Log(comp.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening log of %s: %w", comp.name, err)
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"devcluster", "component", comp.name, string(c.dir)}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", comp.name, err)
	}
	if comp.name == "node" {
		c.node = cmd
	}
	return cmd, nil
}

// stopNode lets the node end its pods; the rest needs no farewell, since its
// data is deleted next.
func (c *children) stopNode(limit time.Duration) {
	c.mu.Lock()
	node, ended := c.node, c.ended["node"]
	c.mu.Unlock()
	if node == nil {
		return
	}
	_ = node.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(limit):
	}
}

func (c *children) waitForEtcd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdStartTime)
	defer cancel()
	dialer := net.Dialer{}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", etcdAddress)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-c.fatal:
			return err
		case <-ctx.Done():
			return fmt.Errorf("waiting for etcd, see %s: %w", c.dir.Log("etcd"), ctx.Err())
		case <-time.After(dialInterval):
		}
	}
}

func errOrExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// progress tells the supervisor, who reads our standard output line by line.
func progress(text string) { fmt.Println(text) }
