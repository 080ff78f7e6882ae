package entry

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// base lays the host's file systems into the root.
func (b *builder) base() error {
	if !b.overlay("/") {
		if err := b.assemble(); err != nil {
			return err
		}
	}
	points, err := mountPoints()
	if err != nil {
		return err
	}
	for _, point := range points {
		if point == "/" || special(point) || below(point, b.hidden) || b.isBound(point) {
			continue
		}
		if err := b.submount(point); err != nil {
			return err
		}
	}
	for _, point := range []string{"/dev", "/sys"} {
		if err := syscall.Mount(point, b.root+point, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("binding %s: %w", point, err)
		}
	}
	return b.memory("/dev/shm")
}

// assemble makes the root from a layer over each of the host's top folders. An
// ordinary user may not lay one over the whole root, because the kernel
// protects what is mounted below it. Where not even that is allowed, the
// host's own folder is taken.
func (b *builder) assemble() error {
	if err := syscall.Mount("tmpfs", b.root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("creating root: %w", err)
	}
	b.private = append(b.private, "/")
	entries, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("reading the host's root: %w", err)
	}
	for _, item := range entries {
		point := "/" + item.Name()
		if item.IsDir() {
			if err := os.Mkdir(b.root+point, 0o755); err != nil {
				return fmt.Errorf("creating root: %w", err)
			}
			if special(point) || b.overlay(point) {
				continue
			}
			b.bound = append(b.bound, point)
		}
		if err := mimicEntry(point, b.root+point, item); err != nil {
			return fmt.Errorf("taking %s over: %w", point, err)
		}
	}
	return nil
}

// special file systems are mounted anew or taken as a whole.
func special(point string) bool {
	return below(point, "/proc") || below(point, "/sys") || below(point, "/dev")
}

func (b *builder) isBound(point string) bool {
	for _, parent := range b.bound {
		if below(point, parent) {
			return true
		}
	}
	return false
}

// submount covers a further file system of the host, privately if possible.
// One that is not visible any more (mounted over) is none of ours.
func (b *builder) submount(point string) error {
	target := b.root + point
	info, err := os.Lstat(target)
	if err != nil {
		return nil
	}
	if info.IsDir() && b.overlay(point) {
		return nil
	}
	if err := bindMount(point, target); err != nil {
		return fmt.Errorf("binding %s: %w", point, err)
	}
	return nil
}

// bindMount leaves out what is mounted below the source, unless an ordinary
// user must take both: what the host mounted cannot be uncovered by him.
func bindMount(source, target string) error {
	err := syscall.Mount(source, target, "", syscall.MS_BIND, "")
	if errors.Is(err, syscall.EINVAL) {
		return syscall.Mount(source, target, "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	return err
}

// overlay mounts a writable layer over one file system and says whether that
// worked.
func (b *builder) overlay(point string) bool {
	if strings.ContainsAny(point, `:,\`) {
		return false
	}
	b.layers++
	layer := filepath.Join(b.scratch, "layer"+strconv.Itoa(b.layers))
	upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
	if os.MkdirAll(upper, 0o755) != nil || os.MkdirAll(work, 0o755) != nil {
		return false
	}
	// The top folder of the layer hides the host's, so it must look the same.
	if info, err := os.Stat(point); err == nil {
		_ = os.Chmod(upper, info.Mode())
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", point, upper, work)
	for _, extra := range []string{"", ",userxattr"} {
		if syscall.Mount("overlay", filepath.Join(b.root, point), "overlay", 0, options+extra) == nil {
			b.private = append(b.private, point)
			return true
		}
	}
	return false
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

// mountPoints answers the mount points of this namespace, oldest first.
func mountPoints() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	defer file.Close()
	var points []string
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if !seen[point] {
			seen[point] = true
			points = append(points, point)
		}
	}
	return points, lines.Err()
}

// unescape undoes the kernel's octal spelling of blanks and backslashes.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
