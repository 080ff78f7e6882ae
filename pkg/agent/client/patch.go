package client

import (
	"bytes"
	"slices"
	"sync"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

const (
	// minPatchedBytes is the smallest file that is worth a patch.
	minPatchedBytes = 16 << 10
	// maxKnownBytes bounds the contents that are kept to patch from. They are
	// those of outputs, by reference, and outlive them until others take their
	// place.
	maxKnownBytes = 32 << 20
)

// contents are the large files that were sent to pods, the latest last. What a
// pod holds is one of them, as long as this process sent it.
type contents struct {
	mu    sync.Mutex
	known map[api.FileState][]byte
	order []api.FileState
	size  int
}

// remember keeps what is large enough to be patched later.
func (c *contents) remember(files []api.File, parts map[string][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[api.FileState][]byte)
	}
	for _, f := range files {
		content, ok := parts[f.Path]
		id := f.State()
		if !ok || len(content) < minPatchedBytes || int64(len(content)) != f.Size {
			continue
		}
		if _, known := c.known[id]; known {
			c.order = append(slices.DeleteFunc(c.order, func(other api.FileState) bool { return other == id }), id)
			continue
		}
		c.known[id], c.order = content, append(c.order, id)
		c.size += len(content)
	}
	for c.size > maxKnownBytes {
		c.size -= len(c.known[c.order[0]])
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

func (c *contents) of(id api.FileState) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id]
}

// patched is the request with patches for what changed a little, as far as the
// pod takes them and holds what is known here.
func (c *contents) patched(request ApplyRequest) ApplyRequest {
	if !slices.Contains(request.Features, api.FeatureFilePatch) {
		return request
	}
	var files []api.File
	parts := make(map[string][]byte)
	total := 0
	for i, f := range request.Manifest.Files {
		held, content := request.Held[f.Path], request.Parts[f.Path]
		if held == f.State() || len(content) < minPatchedBytes {
			continue
		}
		base := c.of(held)
		patch, part := difference(base, content)
		// Half of it saved is worth the base being read once more.
		if base == nil || len(part) > len(content)/2 || total+len(part) > api.MaxPatchBytes {
			continue
		}
		if files == nil {
			files = slices.Clone(request.Manifest.Files)
		}
		total += len(part)
		patch.BaseDigest = held.Digest
		files[i].Patch, parts[f.Path] = patch, part
	}
	if files == nil {
		return request
	}
	for path, content := range request.Parts {
		if _, patched := parts[path]; !patched {
			parts[path] = content
		}
	}
	request.Manifest.Files, request.Parts = files, parts
	return request
}

// difference is the one range in which two contents differ.
func difference(base, content []byte) (*api.Patch, []byte) {
	shorter := min(len(base), len(content))
	before := commonPrefix(base[:shorter], content[:shorter])
	after := 0
	for after < shorter-before && base[len(base)-1-after] == content[len(content)-1-after] {
		after++
	}
	return &api.Patch{
		BaseSize: int64(len(base)), Offset: int64(before), Length: int64(len(base) - before - after),
	}, content[before : len(content)-after]
}

// commonPrefix compares in strides, since most of a large file is the same.
func commonPrefix(a, b []byte) int {
	const stride = 4 << 10
	at := 0
	for at+stride <= len(a) && bytes.Equal(a[at:at+stride], b[at:at+stride]) {
		at += stride
	}
	for at < len(a) && a[at] == b[at] {
		at++
	}
	return at
}
