package inspect

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Everything is for its owner alone: configurations may hold passwords too.
const (
	exportFileMode   = 0o600
	exportFolderMode = 0o700
	archiveSuffix    = ".tar"
)

// Write lays the export out under a path at which nothing may be yet: as an archive
// if it ends in .tar, as a folder otherwise. It is written under another name and
// renamed when it is whole, so that no interruption leaves half of it there.
func (e *Export) Write(ctx context.Context, to string) error {
	to = filepath.Clean(to)
	if err := isFree(to); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(to), "."+filepath.Base(to)+".partial-")
	if err != nil {
		return fmt.Errorf("preparing to export: %w", err)
	}
	err = e.writeAndMove(ctx, partial, to)
	return errors.Join(err, os.RemoveAll(partial))
}

func (e *Export) writeAndMove(ctx context.Context, partial, to string) error {
	name, isArchive := strings.CutSuffix(filepath.Base(to), archiveSuffix)
	isArchive = isArchive && name != ""
	written := filepath.Join(partial, filepath.Base(to))
	write := e.writeFolder
	if isArchive {
		write = e.writeArchive
	}
	if err := write(written, name); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nothing was exported: %w", err)
	}
	if isArchive {
		// Unlike a rename, a link never replaces what came there meanwhile.
		err := os.Link(written, to)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// A folder replaces no file and no folder with something in it.
	if err := isFree(to); err != nil {
		return err
	}
	return os.Rename(written, to)
}

func isFree(to string) error {
	_, err := os.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s: %w, and nothing is overwritten", to, fs.ErrExist)
}

// writeFolder writes through a root that no path leads out of.
func (e *Export) writeFolder(folder, _ string) error {
	if err := os.Mkdir(folder, exportFolderMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(e.contents)) {
		if err := writeFile(root, name, e.contents[name]); err != nil {
			return errors.Join(err, root.Close())
		}
	}
	return root.Close()
}

func writeFile(root *os.Root, name string, content []byte) error {
	if folder := path.Dir(name); folder != "." {
		if err := root.MkdirAll(folder, exportFolderMode); err != nil {
			return err
		}
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, exportFileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// writeArchive writes an archive that unpacks into one folder.
func (e *Export) writeArchive(archive, top string) error {
	file, err := os.OpenFile(archive, os.O_WRONLY|os.O_CREATE|os.O_EXCL, exportFileMode)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	for _, name := range slices.Sorted(maps.Keys(e.contents)) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: top + "/" + name, Size: int64(len(e.contents[name])),
			Mode: exportFileMode, ModTime: e.Manifest.ExportedAt, Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return errors.Join(err, file.Close())
		}
		if _, err := w.Write(e.contents[name]); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return errors.Join(w.Close(), file.Sync(), file.Close())
}

// PrintSummary tells in one line what was exported, and on errOut what was not.
func (e *Export) PrintSummary(out, errOut io.Writer, to string) error {
	for _, l := range e.Manifest.LeftOut {
		if _, err := fmt.Fprintf(errOut, "left out: %s: %s\n", printable(l.What), printable(l.Why)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "exported %s/%s to %s: %d files, %s\n", printable(e.Manifest.Namespace), printable(e.Manifest.Checkpoint),
		printable(to), len(e.contents), e.state())
	return err
}

func (e *Export) state() checkpoint.State {
	switch e.outcome {
	case Damaged:
		return checkpoint.Damaged
	case Unjudged:
		return checkpoint.Unknown
	}
	return checkpoint.Verified
}
