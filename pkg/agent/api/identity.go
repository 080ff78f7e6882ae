package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/cespare/xxhash/v2"
)

// ProofPrefix starts every proof.
const ProofPrefix = "sha256:"

// Hasher computes digest and proof of one content in one pass.
type Hasher struct {
	fast *xxhash.Digest
	full hash.Hash
	size int64
}

// NewHasher starts at no bytes.
func NewHasher() *Hasher {
	return &Hasher{fast: xxhash.New(), full: sha256.New()}
}

// Write takes more of the content. It never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	if _, err := h.fast.Write(p); err != nil {
		return 0, err
	}
	return h.full.Write(p)
}

// State is the identity of what was written so far.
func (h *Hasher) State() FileState {
	return FileState{
		Digest: fmt.Sprintf("%016x", h.fast.Sum64()),
		Proof:  ProofPrefix + hex.EncodeToString(h.full.Sum(nil)),
		Size:   h.size,
	}
}

// PlanProof is the proof of a plan blob.
func PlanProof(blob []byte) string {
	sum := sha256.Sum256(blob)
	return ProofPrefix + hex.EncodeToString(sum[:])
}

// FileSpec is what a file's declaration needs beside its content.
type FileSpec struct {
	Path           string
	Kind           string
	ReloadOnChange bool
}

// Declare computes the manifest's entry for a file.
func Declare(spec FileSpec, content []byte) File {
	h := NewHasher()
	_, _ = h.Write(content) // a hash takes every byte
	id := h.State()
	return File{
		Path: spec.Path, Kind: spec.Kind, ReloadOnChange: spec.ReloadOnChange,
		Digest: id.Digest, Proof: id.Proof, Size: id.Size,
	}
}

// State is the identity the declaration promises.
func (f File) State() FileState {
	return FileState{Digest: f.Digest, Proof: f.Proof, Size: f.Size}
}
