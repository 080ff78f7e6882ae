package entry

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// base lays the host's file systems into the root.
func (b *builder) base() error {
	var err error
	if b.points, err = mountPoints(); err != nil {
		return err
	}
	if err := b.cover("/"); err != nil {
		return err
	}
	for _, point := range b.points {
		if special(point) || below(point, b.hidden) || b.isBound(point) || slices.Contains(b.private, point) {
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

// cover lays a private layer over a folder of the host. An ordinary user may
// not do that where something is mounted further below, because the kernel
// protects what is under those mounts; then the folder is assembled from its
// entries. Where no layer is possible at all, the host's own folder is taken.
func (b *builder) cover(point string) error {
	if b.overlay(point) {
		return nil
	}
	entries, err := os.ReadDir(point)
	if err == nil && b.hasMounts(point) {
		return b.assemble(point, entries)
	}
	b.bound = append(b.bound, point)
	if err := syscall.Mount(point, filepath.Join(b.root, point), "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s: %w", point, err)
	}
	return nil
}

// assemble makes a folder on memory and covers each entry by itself.
func (b *builder) assemble(point string, entries []os.DirEntry) error {
	info, err := os.Stat(point)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", point, err)
	}
	mode := info.Mode().Perm()
	if info.Mode()&os.ModeSticky != 0 {
		mode |= syscall.S_ISVTX
	}
	target := filepath.Join(b.root, point)
	if err := syscall.Mount("tmpfs", target, "tmpfs", 0, fmt.Sprintf("mode=%o", mode)); err != nil {
		return fmt.Errorf("assembling %s: %w", point, err)
	}
	b.private = append(b.private, point)
	for _, item := range entries {
		var err error
		child := filepath.Join(point, item.Name())
		if item.IsDir() {
			if err := os.Mkdir(filepath.Join(b.root, child), 0o755); err != nil {
				return fmt.Errorf("assembling %s: %w", point, err)
			}
			if !special(child) {
				err = b.cover(child)
			}
		} else {
			err = mimicEntry(child, filepath.Join(b.root, child), item)
		}
		// What went away meanwhile is not missed.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("assembling %s: %w", point, err)
		}
	}
	return nil
}

// hasMounts says whether the host has mounted something below a folder.
func (b *builder) hasMounts(point string) bool {
	return slices.ContainsFunc(b.points, func(other string) bool {
		return other != point && below(other, strings.TrimSuffix(point, "/")) && !below(other, b.hidden)
	})
}

// special file systems are mounted anew or taken as a whole.
func special(point string) bool {
	return below(point, "/proc") || below(point, "/sys") || below(point, "/dev")
}

func (b *builder) isBound(point string) bool {
	return slices.ContainsFunc(b.bound, func(parent string) bool { return below(point, parent) })
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
