package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

const (
	stopTime     = 15 * time.Second
	killTime     = 5 * time.Second
	downInterval = 20 * time.Millisecond
)

func newDown(dir func() (state.Dir, error)) *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "Stop the cluster and delete everything of it",
		Example: "  devcluster down\n  devcluster down --state /tmp/second",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := dir()
			if err != nil {
				return err
			}
			return down(cmd.Context(), d)
		},
	}
}

func down(ctx context.Context, dir state.Dir) error {
	if _, err := os.Stat(string(dir)); errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("No cluster in %s; nothing to do.\n", dir)
		return nil
	}
	if err := dir.Claimable(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := dir.LockCommand(waiting)
	if err != nil {
		return err
	}
	defer lock.Release()
	if dir.Alive() {
		if err := stopSupervisor(ctx, dir); err != nil {
			return err
		}
	}
	if err := dir.Remove(); err != nil {
		return err
	}
	fmt.Printf("Stopped the cluster and deleted %s.\n", dir)
	return nil
}

// stopSupervisor asks, then kills. The supervisor's end is seen by its lock,
// which the kernel drops after the process is gone.
func stopSupervisor(ctx context.Context, dir state.Dir) error {
	info, err := dir.Read()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, stopTime}, {syscall.SIGKILL, killTime}} {
		if err := syscall.Kill(info.PID, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping supervisor %d: %w", info.PID, err)
		}
		if gone(ctx, dir, step.wait) {
			return nil
		}
	}
	return fmt.Errorf("supervisor %d does not end", info.PID)
}

func gone(ctx context.Context, dir state.Dir, limit time.Duration) bool {
	deadline := time.After(limit)
	for dir.Alive() {
		select {
		case <-ctx.Done():
			return false
		case <-deadline:
			return false
		case <-time.After(downInterval):
		}
	}
	return true
}
