package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	commandLock    = "command.lock"
	supervisorLock = "supervisor.lock"
	lockPoll       = 100 * time.Millisecond
)

// ErrBusy says that another process holds the lock.
var ErrBusy = errors.New("locked by another process")

// Lock is a held file lock. The kernel drops it when the holder dies, which is
// what makes it a better witness of life than a process number.
type Lock struct{ file *os.File }

// Release gives the lock back.
func (l *Lock) Release() {
	if l != nil && l.file != nil {
		_ = l.file.Close()
	}
}

// LockCommand keeps a second up or down away while one works. It waits until
// the context ends, then answers ErrBusy.
func (d Dir) LockCommand(ctx context.Context) (*Lock, error) {
	for {
		lock, err := d.tryLock(commandLock)
		if !errors.Is(err, ErrBusy) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another devcluster up or down is at work on %s: %w", d, ErrBusy)
		case <-time.After(lockPoll):
		}
	}
}

// LockSupervisor marks the directory as belonging to a living supervisor.
func (d Dir) LockSupervisor() (*Lock, error) { return d.tryLock(supervisorLock) }

// Alive says whether a supervisor holds the directory.
func (d Dir) Alive() bool {
	if _, err := os.Stat(d.Path(supervisorLock)); err != nil {
		return false
	}
	lock, err := d.tryLock(supervisorLock)
	lock.Release()
	return errors.Is(err, ErrBusy)
}

func (d Dir) tryLock(name string) (*Lock, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("creating state directory: %w", err)
	}
	for {
		file, err := os.OpenFile(d.Path(name), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening lock: %w", err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, ErrBusy
			}
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		// A down may have deleted the file between open and lock; a lock on
		// a name that is gone protects nothing.
		held, err := file.Stat()
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		if named, err := os.Stat(d.Path(name)); err == nil && os.SameFile(held, named) {
			return &Lock{file: file}, nil
		}
		_ = file.Close()
		if err := os.MkdirAll(string(d), 0o700); err != nil {
			return nil, fmt.Errorf("creating state directory: %w", err)
		}
	}
}
