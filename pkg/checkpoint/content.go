package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// ContentChecksum names an output: the first 8 bytes, in hex, of one SHA-256
// over the configuration and every artifact's identity and content, without
// separators. It is cut short and unframed by history; evidence is neither.
func ContentChecksum(configuration []byte, artifacts []Artifact) string {
	order := make([]*Artifact, len(artifacts))
	for i := range artifacts {
		order[i] = &artifacts[i]
	}
	slices.SortStableFunc(order, func(a, b *Artifact) int {
		return compareStreamed(a.Descriptor, b.Descriptor)
	})
	stream := newContentStream(configuration)
	for _, a := range order {
		stream.add(a.Descriptor, a.Content)
	}
	return stream.checksum()
}

// StreamContentChecksum computes the content checksum of a checkpoint of which
// only facts are held, one artifact in memory at a time. Read is called in
// stream order. An error of read ends the stream and is returned wrapped.
func StreamContentChecksum(facts *CheckpointFacts, configuration []byte, read func(d Descriptor) ([]byte, error)) (string, error) {
	order := slices.SortedStableFunc(slices.Values(facts.Descriptors), compareStreamed)
	stream := newContentStream(configuration)
	for _, d := range order {
		content, err := read(d)
		if err != nil {
			return "", fmt.Errorf("streaming %s %s: %w", d.Family, d.Path, err)
		}
		stream.add(d, content)
	}
	return stream.checksum(), nil
}

type contentStream struct {
	hash hash.Hash
}

func newContentStream(configuration []byte) contentStream {
	s := contentStream{hash: sha256.New()}
	// A hash in memory never fails to take bytes.
	_, _ = s.hash.Write(configuration)
	return s
}

func (s contentStream) add(d Descriptor, content []byte) {
	_, _ = s.hash.Write([]byte(d.identity()))
	_, _ = s.hash.Write(content)
}

func (s contentStream) checksum() string {
	var sum [sha256.Size]byte
	return hex.EncodeToString(s.hash.Sum(sum[:0])[:8])
}

// streamGroup is the place of a family in the content checksum, where both
// families of general files form one group and come first.
func streamGroup(f Family) int {
	switch f {
	case General, GeneralCA:
		return 0
	default:
		return int(f)
	}
}

func compareStreamed(a, b Descriptor) int {
	return cmp.Or(
		cmp.Compare(streamGroup(a.Family), streamGroup(b.Family)),
		strings.Compare(a.identity(), b.identity()),
		cmp.Compare(a.Family, b.Family),
		strings.Compare(a.Path, b.Path),
	)
}

// compareWalked is the walk order of a set: family, then name by bytes. Path
// decides between equals only so that the order is total.
func compareWalked(a, b Descriptor) int {
	return cmp.Or(
		cmp.Compare(a.Family, b.Family),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.Path, b.Path),
	)
}
