package server

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// hashFile identifies a regular file. The root keeps a symlink from leading
// elsewhere, and one that stays inside is refused as well.
func hashFile(root *os.Root, path string) (api.FileState, fs.FileMode, error) {
	info, err := root.Lstat(path)
	if err != nil {
		return api.FileState{}, 0, err
	}
	if !info.Mode().IsRegular() {
		return api.FileState{}, 0, fmt.Errorf("%q is not a regular file", path)
	}
	file, err := root.Open(path)
	if err != nil {
		return api.FileState{}, 0, err
	}
	defer file.Close()
	hasher := api.NewHasher()
	if _, err := io.Copy(hasher, io.LimitReader(file, api.MaxApplyBytes+1)); err != nil {
		return api.FileState{}, 0, err
	}
	return hasher.State(), info.Mode().Perm(), nil
}

// verifyTree hashes a set's files and refuses anything that is not exactly
// what the set declares: another content, a missing file, one too many.
func verifyTree(l layout, s *set) error {
	folder := filepath.Join(l.set(s.ID), setFiles)
	for _, path := range []string{l.set(s.ID), folder} {
		if err := realFolder(path); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	declared := s.byPath()
	for path, file := range declared {
		got, _, err := hashFile(root, path)
		if err != nil {
			return err
		}
		if want := file.State(); got != want {
			return &contentError{Path: path, Want: want, Got: got}
		}
	}
	err = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		if _, ok := declared[path]; !ok {
			return fmt.Errorf("%q is no part of the set", path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	nonce, err := readBounded(filepath.Join(l.set(s.ID), setNonce), 1<<12)
	if err != nil {
		return err
	}
	if string(nonce) != nonceConfig(l, s.nonce()) {
		return fmt.Errorf("%s of set %s was changed", setNonce, s.ID)
	}
	return nil
}
