package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxFolders bounds how deep folders are read.
	maxFolders = 32
	// standardInput is the name of standard input among files.
	standardInput = "-"
)

var extensions = []string{".yaml", ".yml", ".json"}

// Files says which files to read.
type Files struct {
	// Paths are files, folders (read recursively for .yaml, .yml and .json), or
	// "-" for Stdin.
	Paths []string
	Stdin io.Reader
	// Namespace narrows the input to one namespace, which objects without any
	// then belong to.
	Namespace string
	// Fleet has pods and nodes read too.
	Fleet bool
	// Originals keeps what NewExport needs: every object as it was given.
	Originals bool
}

// Read reads all of them into an inventory.
func (f *Files) Read() (*Inventory, error) {
	inv := newInventory(false)
	if f.Originals {
		inv.originals = map[identity]json.RawMessage{}
	}
	r := &objectReader{allowance: newAllowance(), inventory: inv, namespace: f.Namespace, only: f.Namespace, fleet: f.Fleet}
	for i, path := range f.Paths {
		if path == standardInput {
			if slices.Contains(f.Paths[:i], standardInput) {
				return nil, errors.New("standard input can be read only once")
			}
			if err := r.ReadObjects(f.Stdin, "standard input"); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.readPath(path); err != nil {
			return nil, err
		}
	}
	return inv, nil
}

func (r *objectReader) readPath(path string) error {
	// A folder may be named by a symbolic link, which a walk would not enter.
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return r.readFile(path)
	}
	found := false
	err = filepath.WalkDir(resolved, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && isExport(name) {
			found = true
			return cmp.Or(r.readExport(name), fs.SkipDir)
		}
		if entry.IsDir() {
			return checkDepth(resolved, name)
		}
		if !slices.Contains(extensions, strings.ToLower(filepath.Ext(name))) || !isFile(name) {
			return nil
		}
		found = true
		return r.readFile(name)
	})
	if err == nil && !found {
		err = fmt.Errorf("%s holds no .yaml, .yml or .json file", path)
	}
	return err
}

func checkDepth(top, folder string) error {
	below, err := filepath.Rel(top, folder)
	if err != nil {
		return err
	}
	if strings.Count(below, string(filepath.Separator)) >= maxFolders {
		return fmt.Errorf("%w: folders are nested more than %d deep: %s", errTooLarge, maxFolders, folder)
	}
	return nil
}

// isFile follows links to files, which is what mounted ConfigMaps consist of,
// and leaves out what could block, such as a pipe.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

func (r *objectReader) readFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	readErr := r.ReadObjects(file, name)
	return errors.Join(readErr, file.Close())
}
