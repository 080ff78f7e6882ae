package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/holdfast-project/holdfast/test/cluster/internal/environment"
	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/process/entry"
)

// Set is the volumes of one pod.
type Set struct {
	// Disk and Memory are folders of this pod alone.
	Disk, Memory string
	Sources      Sources
}

// Fill makes every volume and brings those from the API up to date. It may be
// called again at any time; nothing is written that did not change.
func (s *Set) Fill(pod *corev1.Pod) error {
	var problems []error
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if err := s.fill(pod, volume); err != nil {
			problems = append(problems, fmt.Errorf("volume %q: %w", volume.Name, err))
		}
	}
	return errors.Join(problems...)
}

func (s *Set) fill(pod *corev1.Pod, volume *corev1.Volume) error {
	files, fromAPI, err := collect(pod, volume, s.Sources)
	switch {
	case err != nil:
		return err
	case fromAPI:
		return s.project(pod, volume, files)
	case volume.EmptyDir != nil:
		return s.empty(pod, volume)
	case volume.HostPath != nil:
		return hostPath(volume.HostPath)
	}
	return errors.New("this kind of volume is not supported here")
}

// project writes files from the API through the ..data link.
func (s *Set) project(pod *corev1.Pod, volume *corev1.Volume, files payload) error {
	dir := s.path(volume)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating folder: %w", err)
	}
	writer, err := volumeutil.NewAtomicWriter(dir, "pod "+pod.Namespace+"/"+pod.Name+" volume "+volume.Name)
	if err != nil {
		return fmt.Errorf("preparing folder: %w", err)
	}
	return writer.Write(files, func(sub string) error {
		return own(filepath.Join(dir, sub), fsGroup(pod), 0o440)
	})
}

func (s *Set) empty(pod *corev1.Pod, volume *corev1.Volume) error {
	dir := s.path(volume)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("creating folder: %w", err)
	}
	if volume.EmptyDir.Medium == corev1.StorageMediumMemory {
		options := "mode=0777"
		if limit := volume.EmptyDir.SizeLimit; limit != nil {
			options = fmt.Sprintf("%s,size=%d", options, limit.Value())
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
			return fmt.Errorf("mounting memory: %w", err)
		}
	}
	// The umask must not decide who may write.
	if err := os.Chmod(dir, 0o777); err != nil {
		return fmt.Errorf("opening folder: %w", err)
	}
	return own(dir, fsGroup(pod), 0o660)
}

func hostPath(source *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(source.Path, 0o755)
	case corev1.HostPathFileOrCreate:
		file, err := os.OpenFile(source.Path, os.O_CREATE|os.O_RDONLY, 0o644)
		if err != nil {
			return err
		}
		return file.Close()
	}
	_, err := os.Stat(source.Path)
	return err
}

// path is where a volume lies outside the container.
func (s *Set) path(volume *corev1.Volume) string {
	switch {
	case volume.HostPath != nil:
		return volume.HostPath.Path
	case volume.EmptyDir != nil && volume.EmptyDir.Medium != corev1.StorageMediumMemory:
		return filepath.Join(s.Disk, volume.Name)
	}
	return filepath.Join(s.Memory, volume.Name)
}

// Mounts answers what a container mounts where.
func (s *Set) Mounts(pod *corev1.Pod, container *corev1.Container, variables environment.Variables) ([]entry.Mount, error) {
	var mounts []entry.Mount
	for _, m := range container.VolumeMounts {
		volume := find(pod, m.Name)
		if volume == nil {
			return nil, fmt.Errorf("the pod has no volume %q", m.Name)
		}
		source := s.path(volume)
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = environment.Expand([]string{m.SubPathExpr}, variables)[0]
		}
		if sub != "" {
			var err error
			if source, err = subPath(source, sub); err != nil {
				return nil, fmt.Errorf("volume %q, subPath %s: %w", m.Name, sub, err)
			}
		}
		// A file system from the API is read-only in a container whatever the mount says.
		readOnly := m.ReadOnly || (volume.EmptyDir == nil && volume.HostPath == nil)
		mounts = append(mounts, entry.Mount{Source: source, Target: m.MountPath, ReadOnly: readOnly})
	}
	return mounts, nil
}

func find(pod *corev1.Pod, name string) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

// subPath answers a file or folder inside a volume; a missing one becomes a
// folder. The API forbids "..", a link out of the volume is refused here.
func subPath(volume, sub string) (string, error) {
	path := filepath.Join(volume, sub)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return "", err
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", err
	}
	if real != root && !strings.HasPrefix(real, root+"/") {
		return "", errors.New("it leads out of the volume")
	}
	return real, nil
}

// Remove unmounts and deletes the volumes.
func (s *Set) Remove(pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.EmptyDir != nil && volume.EmptyDir.Medium == corev1.StorageMediumMemory {
			_ = syscall.Unmount(s.path(volume), syscall.MNT_DETACH)
		}
	}
	return errors.Join(os.RemoveAll(s.Disk), os.RemoveAll(s.Memory))
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// own gives a tree to the pod's group. An ordinary user cannot, and needs not:
// every container then runs as that user.
func own(dir string, group *int64, add fs.FileMode) error {
	if group == nil || os.Getuid() != 0 || netns.SingleUser() {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, item fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, int(*group)); err != nil {
			return fmt.Errorf("giving %s to group %d: %w", path, *group, err)
		}
		info, err := item.Info()
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		mode := info.Mode().Perm() | add
		if item.IsDir() {
			mode |= fs.ModeSetgid | 0o110
		}
		return os.Chmod(path, mode)
	})
}
