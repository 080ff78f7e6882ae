package publish

import (
	"fmt"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// encoded is an output in the form in which it is stored.
type encoded struct {
	output    *checkpoint.Output
	checksum  string
	setID     string
	payload   string
	text      string
	packed    bool
	files     []file
	threshold int64
	// entryRoom is how many bytes of per-pod entries its fullest object takes,
	// once it was measured.
	entryRoom int
}

// file is one artifact in the form in which it is stored.
type file struct {
	checkpoint.Descriptor
	content  []byte
	checksum string
	text     string
	packed   bool
}

// encode prepares an output. It refuses one that no reader could restore.
func encode(o *checkpoint.Output, threshold int64) (*encoded, error) {
	payload, err := checkpoint.EncodePayload(o)
	if err != nil {
		return nil, err
	}
	if len(o.Artifacts) > checkpoint.MaxFiles {
		return nil, fmt.Errorf("output has %d files, at most %d can be stored", len(o.Artifacts), checkpoint.MaxFiles)
	}
	e := &encoded{output: o, checksum: o.Checksum(), payload: payload, threshold: threshold}
	checksums := make([]string, len(o.Artifacts))
	for i := range o.Artifacts {
		a := &o.Artifacts[i]
		f := file{Descriptor: a.Descriptor, content: a.Content, checksum: checkpoint.FileChecksum(a.Content)}
		f.text, f.packed = storeWithin(a.Content, threshold, maxObjectBytes-objectOverhead)
		if f.Family.IsSecret() {
			f.text, f.packed = storeWithin(a.Content, threshold, maxSecretBytes-len(a.Path))
		}
		checksums[i] = f.checksum
		e.files = append(e.files, f)
	}
	e.setID = checkpoint.SetID(o.Descriptors(), checksums)
	e.text, e.packed = storeWithin(o.Configuration, threshold, maxObjectBytes-objectOverhead-len(payload)-referenceBytes*len(e.files))
	return e, nil
}

// storeWithin stores by the threshold, and compresses shorter content too when
// it would not fit otherwise. A threshold of 0 still means never.
func storeWithin(content []byte, threshold int64, room int) (text string, packed bool) {
	text, packed = checkpoint.Store(content, threshold)
	if !packed && threshold > 0 && jsonSize(text) > room {
		return checkpoint.Store(content, 1)
	}
	return text, packed
}
