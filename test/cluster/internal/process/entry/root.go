package entry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// builder makes the root of one container below scratch/root.
type builder struct {
	scratch string
	root    string
	layers  int
	hidden  string
	// private lists the mounts that belong to the root file system itself and
	// become read-only with it.
	private []string
	// volumes are the paths in the container at which volumes are mounted.
	volumes []string
	// points are the mount points of the host.
	points []string
	// bound lists folders of the host taken with all that is mounted in them.
	bound []string
}

// buildRoot makes a private root and moves into it. Nothing written below it
// reaches the host where overlay mounts work; where they do not (old kernels,
// some containers), the host's own files are seen and mount points are made on
// memory.
func buildRoot(spec Spec) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	b := &builder{scratch: spec.Scratch, root: filepath.Join(spec.Scratch, "root"), hidden: spec.Hide}
	if err := os.MkdirAll(b.root, 0o755); err != nil {
		return fmt.Errorf("creating root: %w", err)
	}
	if err := b.base(); err != nil {
		return err
	}
	if err := b.hide(); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if err := b.bind(m); err != nil {
			return err
		}
	}
	if err := b.processes(); err != nil {
		return err
	}
	if err := b.enter(); err != nil {
		return err
	}
	if spec.ReadOnly {
		return b.freeze()
	}
	return nil
}

// hide covers a folder with an empty one: the cluster's keys are no container's
// business.
func (b *builder) hide() error {
	target := b.root + b.hidden
	if _, err := os.Stat(target); err != nil {
		return nil
	}
	if err := syscall.Mount("tmpfs", target, "tmpfs", syscall.MS_RDONLY, "mode=0755,size=4k"); err != nil {
		return fmt.Errorf("hiding %s: %w", b.hidden, err)
	}
	return nil
}

func (b *builder) memory(path string) error {
	if _, err := os.Stat(b.root + path); err != nil {
		return nil
	}
	if err := syscall.Mount("tmpfs", b.root+path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mounting %s: %w", path, err)
	}
	return nil
}

// bind makes the target and mounts the source there.
func (b *builder) bind(m Mount) error {
	info, err := os.Stat(m.Source)
	if err != nil {
		return fmt.Errorf("mounting at %s: %w", m.Target, err)
	}
	target, err := b.target(m.Target, info.IsDir())
	if err != nil {
		return err
	}
	if err := bindMount(m.Source, target); err != nil {
		return fmt.Errorf("mounting at %s: %w", m.Target, err)
	}
	b.volumes = append(b.volumes, strings.TrimPrefix(target, b.root))
	if m.ReadOnly {
		if err := remountReadOnly(target); err != nil {
			return fmt.Errorf("mounting at %s read-only: %w", m.Target, err)
		}
	}
	return nil
}

// target answers an existing mount point for a path of the container. Links on
// the way are followed inside the root, as the container would.
func (b *builder) target(path string, dir bool) (string, error) {
	target, err := securejoin.SecureJoin(b.root, path)
	if err != nil {
		return "", fmt.Errorf("mount path %s: %w", path, err)
	}
	if err := create(target, dir); err == nil {
		return target, nil
	}
	if err := b.mimic(existingParent(target)); err != nil {
		return "", fmt.Errorf("mount path %s does not exist on this machine and could not be made: %w", path, err)
	}
	if err := create(target, dir); err != nil {
		return "", fmt.Errorf("mount path %s does not exist on this machine and could not be made: %w", path, err)
	}
	return target, nil
}

func create(target string, dir bool) error {
	if dir {
		return os.MkdirAll(target, 0o755)
	}
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, nil, 0o644)
}

func existingParent(path string) string {
	for {
		path = filepath.Dir(path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
	}
}

func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}
