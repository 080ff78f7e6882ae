package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// evidenceDomain is the first field of the evidence and names its version.
const evidenceDomain = "holdfast-evidence-v1"

// DescribedSum is an artifact whose content has been read and dropped.
type DescribedSum struct {
	Descriptor
	Sum
}

// Evidence binds configuration, plan JSON and artifacts under one SHA-256. The
// framing is in the package comment. Artifacts are taken in the order given,
// which must be walk order.
func Evidence(configuration Sum, planJSON Sum, artifacts []DescribedSum) string {
	f := framer{hash: sha256.New()}
	f.text(evidenceDomain)
	f.content(configuration)
	f.content(planJSON)
	f.number(uint64(len(artifacts)))
	for i := range artifacts {
		a := &artifacts[i]
		f.bytes([]byte{byte(a.Family)})
		f.text(a.Name)
		f.text(a.Path)
		f.text(a.RuntimePath)
		f.flag(a.ReloadOnChange)
		f.content(a.Sum)
	}
	return checksumPrefix + hex.EncodeToString(f.hash.Sum(nil))
}

// framer writes fields, each after its length, so that no two lists of fields
// give one stream.
type framer struct {
	hash hash.Hash
}

func (f framer) bytes(field []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(field)))
	// A hash in memory never fails to take bytes.
	_, _ = f.hash.Write(length[:])
	_, _ = f.hash.Write(field)
}

func (f framer) text(field string) { f.bytes([]byte(field)) }

func (f framer) number(n uint64) {
	f.bytes(binary.BigEndian.AppendUint64(nil, n))
}

func (f framer) flag(set bool) {
	if set {
		f.bytes([]byte{1})
		return
	}
	f.bytes([]byte{0})
}

// content is two fields, so that whoever holds only digests can compute it.
func (f framer) content(s Sum) {
	f.number(uint64(s.Size))
	f.bytes(s.SHA256[:])
}
