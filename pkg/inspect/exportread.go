package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// isExport tells that a folder was written by an export.
func isExport(folder string) bool { return isFile(filepath.Join(folder, exportManifest)) }

// cameAlone tells that a namespace's checkpoints all come from exports, which hold
// one each: pointers to others are no sign that somebody took those away.
func (inv *Inventory) cameAlone(namespace string) bool {
	for name := range inv.spaces[namespace].retained {
		if !slices.Contains(inv.exported, identity{v1alpha1.KindCfg, namespace, name}) {
			return false
		}
	}
	return len(inv.spaces[namespace].retained) > 0
}

// readExport reads the stored objects of an export. Its other files are copies:
// they are compared with the manifest, and no verdict depends on them.
func (r *objectReader) readExport(folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	err = r.readExportIn(root, folder)
	return errors.Join(err, root.Close())
}

func (r *objectReader) readExportIn(root *os.Root, folder string) error {
	raw, err := r.readBounded(root, exportManifest)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	var manifest ExportManifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return fmt.Errorf("%s: %s is not readable: %w", folder, exportManifest, decodeError(err))
	}
	if manifest.Format != ExportFormat {
		return fmt.Errorf("%s: %s has format %s, and only %s is read", folder, exportManifest, quoted(manifest.Format), ExportFormat)
	}
	r.inventory.exported = append(r.inventory.exported, identity{v1alpha1.KindCfg, manifest.Namespace, manifest.Checkpoint})
	expected := map[string]ExportedFile{}
	for _, f := range manifest.Files {
		expected[f.Path] = f
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == exportManifest {
			return err
		}
		f, listed := expected[name]
		delete(expected, name)
		switch {
		case !listed:
			r.altered(manifest, name, "it is not in the manifest")
			return nil
		case !entry.Type().IsRegular():
			r.altered(manifest, name, "it is no plain file")
			return nil
		}
		return r.compare(root, manifest, f)
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		r.altered(manifest, name, "it is in the manifest and not in the folder")
	}
	objects := filepath.Join(folder, exportObjects)
	if !isFile(objects) {
		return fmt.Errorf("%s: %w", objects, fs.ErrNotExist)
	}
	return r.readFile(objects)
}

func (r *objectReader) compare(root *os.Root, manifest ExportManifest, f ExportedFile) error {
	raw, err := r.readBounded(root, f.Path)
	if err != nil {
		return err
	}
	if got := checkpoint.FileChecksum(raw); got != f.SHA256 {
		r.altered(manifest, f.Path, fmt.Sprintf("expected %s, found %s", f.SHA256, got))
	}
	return nil
}

func (r *objectReader) altered(manifest ExportManifest, name, how string) {
	r.inventory.altered = append(r.inventory.altered, Notice{manifest.Namespace, checkpoint.Finding{
		State: checkpoint.Damaged, Reason: ReasonExportAltered,
		Message: "export of " + manifest.Checkpoint + ": " + strings.Trim(quoted(name), `"`) + ": " + how,
	}})
}

// readBounded reads a file within what may still be read in all.
func (r *objectReader) readBounded(root *os.Root, name string) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", errTooLarge, name, maxDocument)
	}
	return raw, r.allowance.spend(len(raw))
}
