package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

const (
	// LifelineFD is the pipe whose end means that the supervisor is gone.
	LifelineFD = 3
	// nodeStopTime is what pods get to end when the whole cluster ends.
	nodeStopTime = 6 * time.Second
	hostname     = "devnode"
)

// Run prepares the namespace and serves until it is told to stop.
func Run(ctx context.Context, dir state.Dir) error {
	if os.Getpid() != 1 {
		return errors.New("must be the first process of a process namespace")
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	syscall.CloseOnExec(LifelineFD)
	lifeline := make(chan struct{})
	go func() {
		defer close(lifeline)
		_, _ = io.Copy(io.Discard, os.NewFile(LifelineFD, "lifeline"))
	}()
	if err := prepare(ctx, dir); err != nil {
		return netns.Explain(err)
	}
	children := newChildren(dir)
	go children.reap(ctx)
	if err := serve(ctx, dir, children); err != nil {
		return err
	}
	if err := children.startAll(ctx); err != nil {
		return err
	}
	select {
	case <-lifeline:
		return errors.New("the supervisor is gone")
	case err := <-children.fatal:
		return err
	case <-ctx.Done():
		children.stopNode(nodeStopTime)
		return nil
	}
}

// prepare makes mounts private before anything is mounted, so that nothing
// reaches the host, and mounts what the components expect.
func prepare(ctx context.Context, dir state.Dir) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	// A container that masks parts of /proc forbids a fresh one. The old one
	// still serves /proc/self, which is all that is needed here.
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		klog.FromContext(ctx).Info("Kept the host's /proc: process numbers in it are the host's", "reason", err)
	}
	if err := syscall.Mount("tmpfs", dir.Scratch(), "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0711"); err != nil {
		return fmt.Errorf("mounting memory for containers: %w", err)
	}
	if err := syscall.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("naming the namespace: %w", err)
	}
	return netns.Configure()
}
