package entry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// mimic replaces a folder we may not write by one on memory that has the same
// entries, so that a mount point can be made in it. An ordinary user needs
// this for every path below a folder of root's.
func (b *builder) mimic(dir string) error {
	b.layers++
	stage := filepath.Join(b.scratch, "mimic"+strconv.Itoa(b.layers))
	if err := os.Mkdir(stage, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := syscall.Mount(dir, stage, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("keeping %s: %w", dir, err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("covering %s: %w", dir, err)
	}
	for _, entry := range entries {
		if err := mimicEntry(filepath.Join(stage, entry.Name()), filepath.Join(dir, entry.Name()), entry); err != nil {
			return err
		}
	}
	return syscall.Unmount(stage, syscall.MNT_DETACH)
}

func mimicEntry(from, to string, entry os.DirEntry) error {
	switch {
	case entry.Type()&os.ModeSymlink != 0:
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(link, to)
	case entry.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	default:
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
	}
	if err := syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("keeping %s: %w", to, err)
	}
	return nil
}

// processes gives the container its own /proc; where that is forbidden it sees
// the node's, in which only /proc/self is right.
func (b *builder) processes() error {
	target := filepath.Join(b.root, "proc")
	if syscall.Mount("proc", target, "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "") == nil {
		return nil
	}
	if err := syscall.Mount("/proc", target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}

// enter makes the new root the root and drops the old one.
func (b *builder) enter() error {
	old, err := syscall.Open("/", syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the old root: %w", err)
	}
	if err := os.Chdir(b.root); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	// With the same folder for both, the old root is stacked on the new one
	// and needs no place of its own.
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := syscall.Fchdir(old); err != nil {
		return fmt.Errorf("returning to the old root: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("dropping the old root: %w", err)
	}
	_ = syscall.Close(old)
	return os.Chdir("/")
}

// freeze honours readOnlyRootFilesystem; volumes stay as they are.
func (b *builder) freeze() error {
	if len(b.private) == 0 {
		return remountReadOnly("/")
	}
	for _, point := range b.private {
		// A volume mounted there or above hides it, and its path leads to the volume.
		if slices.ContainsFunc(b.volumes, func(volume string) bool { return below(point, volume) }) {
			continue
		}
		if err := remountReadOnly(point); err != nil {
			return fmt.Errorf("making %s read-only: %w", point, err)
		}
	}
	return nil
}

// remountReadOnly keeps the flags that an ordinary user may not clear.
func remountReadOnly(path string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return err
	}
	const kept = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	flags := uintptr(stat.Flags)&kept | syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY
	return syscall.Mount("", path, "", flags, "")
}
