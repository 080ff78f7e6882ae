package gate

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

const (
	folderPrefix = "holdfast-gate-"
	// lockGrace is how long a new folder may be without its lock.
	lockGrace = time.Second
)

// folder is a private one for one check. It is locked for as long as its process
// lives, which tells it from one that a killed process left.
type folder struct {
	path string
	lock *os.File
}

func newFolder(parent string) (*folder, error) {
	path, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &folder{path: path, lock: lock}, nil
}

// remove deletes the folder and lets go of it.
func (f *folder) remove() error { return errors.Join(os.RemoveAll(f.path), f.lock.Close()) }

// lockFolder fails if another process has the lock.
func lockFolder(path string) (*os.File, error) {
	lock, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, lock.Close())
	}
	return lock, nil
}

// Sweep removes the folders, keys included, of checks whose process was killed.
// Those of others that live, or that it may not touch, it leaves alone.
func (g *Gate) Sweep(ctx context.Context) {
	left, _ := filepath.Glob(filepath.Join(cmp.Or(g.config.Dir, os.TempDir()), folderPrefix+"*")) // the pattern is a good one
	for _, path := range left {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < lockGrace {
			continue
		}
		lock, err := lockFolder(path)
		if err != nil {
			continue
		}
		f := folder{path: path, lock: lock}
		if err := f.remove(); err != nil {
			klog.FromContext(ctx).Error(err, "Could not remove the folder of a check that was killed", "folder", path)
			continue
		}
		klog.FromContext(ctx).Info("Removed the folder of a check that was killed", "folder", path)
	}
}
