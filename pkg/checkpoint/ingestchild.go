package checkpoint

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// IngestChild reads a stored child and keeps nothing of its bytes.
func IngestChild(s *StoredChild) *ChildFacts {
	facts, _ := readChild(s, nil)
	return facts
}

// readChild is ingestion that hands out the content too, which must not be
// written to; nil if it cannot be read.
func readChild(s *StoredChild, budget *Budget) (*ChildFacts, []byte) {
	f := &ChildFacts{
		Meta:     s.Meta.keep(),
		Kind:     interned(s.Kind),
		Family:   s.Family,
		Path:     common(s.Path),
		FileName: common(s.FileName),
		findings: slices.Clone(s.Problems),
	}
	f.checkShape(s)
	content, err := loadView(s.Text, s.Compressed, budget)
	if err != nil {
		f.Checksum = strings.Clone(s.Checksum)
		f.findings.unreadable(ReasonContentUnreadable, f.object(), "content", err)
		return f, nil
	}
	sum := Summarize(content)
	f.Sum = &sum
	f.Checksum = sameOrClone(s.Checksum, sum.FileChecksum())
	if f.Checksum != sum.FileChecksum() {
		f.findings.mismatch(ReasonChecksumMismatch, f.object(), "checksum", f.Checksum, sum.FileChecksum())
	}
	if s.Family == Map {
		f.entries = entriesDigest(plan.MapEntries(content))
	}
	return f, content
}

// checkShape finds contradictions between the fields. Secrets have no mark for
// empty content: theirs is simply empty.
func (f *ChildFacts) checkShape(s *StoredChild) {
	object := f.object()
	if s.Path == "" && s.Kind != KindSecret {
		f.findings.damaged(ReasonPathMissing, object, "path is empty")
	}
	switch {
	case s.Empty && s.Compressed:
		f.findings.damaged(ReasonEmptyMismatch, object, "empty and compressed are both set")
	case s.Empty && s.Text != "":
		f.findings.damaged(ReasonEmptyMismatch, object, "empty is set beside content of %d bytes", len(s.Text))
	case !s.Empty && s.Text == "" && s.Kind != KindSecret:
		f.findings.damaged(ReasonEmptyMismatch, object, "content is absent and empty is not set")
	}
}

// entriesDigest finds differences between entry lists. It is no evidence: that
// is the content's own digest.
func entriesDigest(entries []plan.MapEntry) uint64 {
	d := xxhash.New()
	var length [8]byte
	for _, e := range entries {
		for _, field := range [...]string{e.Key, e.Value} {
			binary.BigEndian.PutUint64(length[:], uint64(len(field)))
			// A hash in memory never fails to take bytes.
			_, _ = d.Write(length[:])
			_, _ = d.WriteString(field)
		}
	}
	return d.Sum64()
}
