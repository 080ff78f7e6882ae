package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// Sum is what remains of content once it has been read: enough for every check
// but the content checksum, which needs all bytes of an output in one stream.
type Sum struct {
	Size       int64
	SHA256     [sha256.Size]byte
	PlanDigest string
}

// Summarize hashes b.
func Summarize(b []byte) Sum {
	return Sum{Size: int64(len(b)), SHA256: sha256.Sum256(b), PlanDigest: plan.Digest(b)}
}

// FileChecksum is the file checksum of the summed bytes: sha256: and 64 hex digits.
func (s Sum) FileChecksum() string {
	return checksumPrefix + hex.EncodeToString(s.SHA256[:])
}

const checksumPrefix = "sha256:"

// EmptyChecksum is the file checksum of zero bytes.
const EmptyChecksum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// FileChecksum is the file checksum of b: sha256: and 64 lower-case hex digits
// over the original, uncompressed bytes.
func FileChecksum(b []byte) string {
	sum := sha256.Sum256(b)
	return checksumPrefix + hex.EncodeToString(sum[:])
}
