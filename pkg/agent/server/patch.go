package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// patch is a file that is not sent whole.
type patch struct {
	api.Patch
	size    int64 // of content
	content []byte
	sent    bool
}

// takePatches parts the manifest from its patches: what an output is does not
// depend on how it was sent.
func takePatches(m *api.Manifest) map[string]*patch {
	patches := make(map[string]*patch)
	for i := range m.Files {
		if f := &m.Files[i]; f.Patch != nil {
			patches[f.Path] = &patch{Patch: *f.Patch, size: f.Patch.PartSize(f.Size)}
			f.Patch = nil
		}
	}
	return patches
}

// read keeps the part until the base is known. The manifest was checked to hold
// no more of them than may be held.
func (p *patch) read(path string, part io.Reader) error {
	content, err := readPart(part, p.size)
	if err == nil && int64(len(content)) != p.size {
		err = fmt.Errorf("has %d bytes, declared are %d", len(content), p.size)
	}
	if err != nil {
		return &requestError{stage: api.StageParts, err: fmt.Errorf("patch of file %q: %w", path, err)}
	}
	p.content, p.sent = content, true
	return nil
}

// take makes a file that was not sent whole from another set, if that holds it
// or the base of its patch.
func (up *upload) take(file api.File, from string) (bool, error) {
	if p := up.patches[file.Path]; p != nil && p.sent {
		taken, err := up.staging.patch(file, p, from)
		if taken || err != nil {
			return taken, err
		}
	}
	return up.staging.carry(file, from)
}

// patch writes a file anew from its base. The whole is hashed like one that was
// sent, and refused unless it is what was declared.
func (st *staging) patch(file api.File, p *patch, from string) (bool, error) {
	root, err := os.OpenRoot(filepath.Join(st.layout.set(from), setFiles))
	if err != nil {
		return false, nil // no such set: no base either
	}
	defer root.Close()
	base, _, err := hashFile(root, file.Path)
	if err != nil || base.Digest != p.BaseDigest || base.Size != p.BaseSize {
		return false, nil // the sender has to send it whole
	}
	source, err := root.Open(file.Path)
	if err != nil {
		return false, err
	}
	defer source.Close()
	behind := p.Offset + p.Length
	err = st.write(file, io.MultiReader(io.NewSectionReader(source, 0, p.Offset), bytes.NewReader(p.content),
		io.NewSectionReader(source, behind, p.BaseSize-behind)))
	var mismatch *contentError
	if errors.As(err, &mismatch) {
		return false, &requestError{stage: api.StageParts, err: fmt.Errorf("patched: %w", err)}
	}
	return err == nil, err
}
