package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// keyMode is for files that hold private keys, fileMode for the others. All
// folders are 0700 besides.
const (
	keyMode  fs.FileMode = 0o600
	fileMode fs.FileMode = 0o640
)

func modeOf(kind string) fs.FileMode {
	if kind == api.KindCert {
		return keyMode
	}
	return fileMode
}

// staging is a set being written. Nothing refers to its folder before the set
// is switched to, so it can be dropped at any point, by anyone.
type staging struct {
	slots  *slots
	disk   *disk
	layout layout
	id     string
	root   *os.Root
	have   map[string]bool
	// written are the files that are not durable before finish.
	written []string
}

func newStaging(s *slots) (*staging, error) {
	id, err := s.claim()
	if err != nil {
		return nil, err
	}
	st := &staging{slots: s, disk: s.disk, layout: s.layout, id: id, have: make(map[string]bool)}
	if st.root, err = os.OpenRoot(filepath.Join(s.layout.set(id), setFiles)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening set: %w", err), st.discard())
	}
	return st, nil
}

// close lets go of the folder without removing it.
func (st *staging) close() error {
	if st.root == nil {
		return nil
	}
	root := st.root
	st.root = nil
	return root.Close()
}

// discard removes everything that was written.
func (st *staging) discard() error {
	return errors.Join(st.close(), st.slots.release(st.id))
}

// write takes a file's content and refuses it unless it is what was declared.
func (st *staging) write(file api.File, content io.Reader) (err error) {
	if err := st.folderOf(file.Path); err != nil {
		return err
	}
	out, err := st.disk.create(st.root, file.Path, modeOf(file.Kind))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	hasher := api.NewHasher()
	// One byte more than declared is enough to see that there are too many.
	if _, err := io.Copy(io.MultiWriter(out, hasher), io.LimitReader(content, file.Size+1)); err != nil {
		return err
	}
	if got := hasher.State(); got != file.State() {
		return &contentError{Path: file.Path, Want: file.State(), Got: got}
	}
	st.have[file.Path] = true
	st.written = append(st.written, out.Name())
	return nil
}

func (st *staging) folderOf(file string) error {
	folder := path.Dir(file)
	if folder == "." {
		return nil
	}
	return st.disk.step("mkdir", folder, func() error { return st.root.MkdirAll(folder, 0o700) })
}

// contentError says that bytes are not what their declaration promises.
type contentError struct {
	Path      string
	Want, Got api.FileState
}

func (e *contentError) Error() string {
	return fmt.Sprintf("file %q: declared as %d bytes with digest %s and %s, is at least %d bytes with digest %s and %s",
		e.Path, e.Want.Size, e.Want.Digest, e.Want.Proof, e.Got.Size, e.Got.Digest, e.Got.Proof)
}

// carry takes a file over from another set if it is there and, hashed now, is
// what was declared. Sets never change, so they may share a file by hard link.
func (st *staging) carry(file api.File, from string) (bool, error) {
	root, err := os.OpenRoot(filepath.Join(st.layout.set(from), setFiles))
	if err != nil {
		return false, nil // no such set: nothing to carry
	}
	defer root.Close()
	got, mode, err := hashFile(root, file.Path)
	if err != nil || got != file.State() {
		return false, nil // the sender has to send it again
	}
	if err := st.folderOf(file.Path); err != nil {
		return false, err
	}
	if mode == modeOf(file.Kind) {
		source := filepath.Join(root.Name(), file.Path)
		if err := st.disk.link(source, filepath.Join(st.root.Name(), file.Path)); err == nil {
			st.have[file.Path] = true
			return true, nil
		}
		// Another device, or a file system without links: copy instead.
	}
	source, err := root.Open(file.Path)
	if err != nil {
		return false, err
	}
	defer source.Close()
	return true, st.write(file, source)
}

// finish completes the set with what the agent adds and makes it durable.
func (st *staging) finish(s *set) error {
	meta, err := s.encode()
	if err != nil {
		return err
	}
	folder := st.layout.set(st.id)
	added := map[string][]byte{setMeta: meta, setNonce: []byte(nonceConfig(st.layout, s.nonce()))}
	if len(s.plan) > 0 {
		added[setPlan] = s.plan
	}
	for name, content := range added {
		added := filepath.Join(folder, name)
		if err := st.disk.write(added, content); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		st.written = append(st.written, added)
	}
	folders, err := st.folders()
	if err != nil {
		return err
	}
	if err := st.disk.sync(append(st.written, folders...)...); err != nil {
		return fmt.Errorf("making set durable: %w", err)
	}
	return st.close()
}

// folders are those whose entries make up the set.
func (st *staging) folders() ([]string, error) {
	folders := []string{st.layout.set(st.id), st.layout.sets()}
	err := filepath.WalkDir(filepath.Join(st.layout.set(st.id), setFiles), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, name)
		}
		return err
	})
	return folders, err
}
