package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// disk performs every change the agent makes to its folder. Each call is one
// step; before runs ahead of each and may refuse it, which is how the tests end
// the process, or fill the disk, at every step in turn.
type disk struct {
	before atomic.Pointer[func(step string) error]
}

func (d *disk) step(verb, path string, act func() error) error {
	if before := d.before.Load(); before != nil {
		if err := (*before)(verb + " " + path); err != nil {
			return fmt.Errorf("%s %s: %w", verb, path, err)
		}
	}
	return act()
}

func (d *disk) mkdir(path string) error {
	return d.step("mkdir", path, func() error { return os.MkdirAll(path, 0o700) })
}

// create makes a file that must not exist yet.
func (d *disk) create(root *os.Root, path string, mode fs.FileMode) (*os.File, error) {
	var file *os.File
	err := d.step("create", path, func() (err error) {
		file, err = root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		return err
	})
	return file, err
}

// maxSyncs bounds how many files are made durable side by side.
const maxSyncs = 16

// sync makes files and folders durable. Side by side, because the disk takes one
// turn for all that wait for it.
func (d *disk) sync(paths ...string) error {
	var group errgroup.Group
	group.SetLimit(maxSyncs)
	for _, path := range paths {
		group.Go(func() error {
			return d.step("sync", path, func() error {
				file, err := os.Open(path)
				if err != nil {
					return err
				}
				return errors.Join(file.Sync(), file.Close())
			})
		})
	}
	return group.Wait()
}

func (d *disk) link(from, to string) error {
	return d.step("link", to, func() error { return os.Link(from, to) })
}

// symlink makes the link anew. It is only used for names that nothing follows
// before they are renamed into place.
func (d *disk) symlink(target, path string) error {
	return d.step("symlink", path, func() error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Symlink(target, path)
	})
}

// rename replaces to and makes that durable.
func (d *disk) rename(from, to string) error {
	if err := d.step("rename", to, func() error { return os.Rename(from, to) }); err != nil {
		return err
	}
	return d.sync(filepath.Dir(to))
}

func (d *disk) remove(path string) error {
	return d.step("remove", path, func() error { return os.RemoveAll(path) })
}

// write puts a small file of the agent's own under a name that nothing reads yet.
func (d *disk) write(path string, content []byte) error {
	return d.step("write", path, func() error { return os.WriteFile(path, content, 0o600) })
}

// replace changes a small file as a whole or not at all.
func (d *disk) replace(path string, content []byte) error {
	temporary := path + ".tmp"
	if err := d.write(temporary, content); err != nil {
		return err
	}
	if err := d.sync(temporary); err != nil {
		return err
	}
	return d.rename(temporary, path)
}
