package checkpoint

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Bounds of one checkpoint.
const (
	// MaxValue bounds one decoded value in bytes: a body an agent takes.
	MaxValue = 64 << 20
	// MaxTotal bounds configuration and artifacts of one checkpoint together, for
	// they go to an agent in one body.
	MaxTotal = 64 << 20
	// MaxFiles bounds artifacts, references and plan files.
	MaxFiles = 4096
	// maxWindow bounds what a frame may ask the decoder to remember.
	maxWindow = 64 << 20
)

// ErrTooLarge says that a value claims or expands to more than its bound.
var ErrTooLarge = errors.New("larger than the bound")

// Budget bounds what decoding the values of one checkpoint may cost.
type Budget struct {
	remaining int64
}

// NewBudget is the budget of one checkpoint: MaxTotal for all values that are
// loaded under it.
func NewBudget() *Budget { return &Budget{remaining: MaxTotal} }

// Store is how content is written: zstd and base64 where the threshold is
// positive, the content longer than it and the text shorter than the content;
// plain otherwise.
func Store(content []byte, threshold int64) (text string, compressed bool) {
	if threshold > 0 && int64(len(content)) > threshold {
		if packed := pack(content); len(packed) < len(content) {
			return packed, true
		}
	}
	return string(content), false
}

// Load is the content of a stored text. The content is charged to the budget;
// a nil budget bounds the value alone. A value beyond a bound is an ErrTooLarge
// and has cost no more than the bound.
func Load(text string, compressed bool, limit *Budget) ([]byte, error) {
	content, err := loadView(text, compressed, limit)
	if err != nil || compressed {
		return content, err
	}
	return []byte(text), nil
}

// loadView is Load without a copy of plain text: the content must not be written to.
func loadView(text string, compressed bool, limit *Budget) ([]byte, error) {
	bound := int64(MaxValue)
	if limit != nil {
		bound = min(bound, limit.remaining)
	}
	var content []byte
	var err error
	switch {
	case compressed:
		content, err = unpack(text, bound)
	case int64(len(text)) > bound:
		err = tooLarge(int64(len(text)), bound)
	default:
		content = viewBytes(text)
	}
	if err != nil {
		return nil, err
	}
	if limit != nil {
		limit.remaining -= int64(len(content))
	}
	return content, nil
}

// pack is zstd then base64, whatever the size.
func pack(content []byte) string {
	return base64.StdEncoding.EncodeToString(encoder().EncodeAll(content, nil))
}

// unpack reverses pack for every compressor and every spelling of base64.
func unpack(text string, bound int64) ([]byte, error) {
	if size := int64(base64.StdEncoding.DecodedLen(len(text))); size > bound+maxOverhead {
		return nil, tooLarge(size, bound)
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decoding base64: %w", err)
	}
	if len(packed) == 0 {
		return nil, errors.New("decoding zstd: no frame")
	}
	return decompress(packed, bound)
}

// maxOverhead is what compression may add to content that does not shrink.
const maxOverhead = 1 << 20

func tooLarge(size, bound int64) error {
	return fmt.Errorf("%d bytes are %w of %d", size, ErrTooLarge, bound)
}

// decompress decodes all frames of packed. The size is known before the first
// byte is decoded: stated by the frames, where a lie costs no more than the
// bound, or else measured without keeping what is decoded.
func decompress(packed []byte, bound int64) ([]byte, error) {
	size, known, err := claimedSize(packed)
	if err == nil && !known {
		size, err = measure(packed, bound)
	}
	if err != nil {
		return nil, decodingError(err, bound)
	}
	if size > bound {
		return nil, tooLarge(size, bound)
	}
	content, err := decoder().DecodeAll(packed, make([]byte, 0, size))
	if err != nil {
		return nil, decodingError(err, bound)
	}
	if int64(len(content)) > bound {
		return nil, tooLarge(int64(len(content)), bound)
	}
	return content, nil
}

// Parts of a zstd frame, as RFC 8878 lays them out.
const (
	blockHeaderSize   = 3
	blockTypeRLE      = 1
	frameChecksumSize = 4
	// maxClaim keeps the sum of claims from overflowing.
	maxClaim = 1 << 40
)

// claimedSize walks the frames of packed without decoding them and adds up the
// sizes they state. It is not known if a frame states none or the walk does not
// end where the input does, which is for the decoder to judge.
func claimedSize(packed []byte) (size int64, known bool, err error) {
	for len(packed) > 0 {
		var header zstd.Header
		if err := header.Decode(packed); err != nil {
			return 0, false, err
		}
		if !header.Skippable && !header.HasFCS {
			return 0, false, nil
		}
		size = min(size+int64(min(header.FrameContentSize, maxClaim)), maxClaim)
		rest, ok := skipFrame(packed, &header)
		if !ok {
			return 0, false, nil
		}
		packed = rest
	}
	return size, true, nil
}

func skipFrame(packed []byte, header *zstd.Header) (rest []byte, ok bool) {
	if header.Skippable {
		return skip(packed, header.HeaderSize+int(header.SkippableSize))
	}
	if packed, ok = skip(packed, header.HeaderSize); !ok {
		return nil, false
	}
	for last := false; !last; {
		if len(packed) < blockHeaderSize {
			return nil, false
		}
		block := int(packed[0]) | int(packed[1])<<8 | int(packed[2])<<16
		last = block&1 != 0
		length := block >> 3
		if block>>1&3 == blockTypeRLE {
			length = 1
		}
		if packed, ok = skip(packed, blockHeaderSize+length); !ok {
			return nil, false
		}
	}
	if header.HasCheckSum {
		return skip(packed, frameChecksumSize)
	}
	return packed, true
}

func skip(b []byte, n int) ([]byte, bool) {
	if n > len(b) {
		return nil, false
	}
	return b[n:], true
}

// measure decodes and forgets, up to one byte beyond the bound.
func measure(packed []byte, bound int64) (int64, error) {
	d := streams.Get().(*zstd.Decoder)
	defer streams.Put(d)
	if err := d.Reset(bytes.NewReader(packed)); err != nil {
		return 0, err
	}
	size, err := io.Copy(io.Discard, io.LimitReader(d, bound+1))
	// Let go of the input; a reset to nothing does not fail.
	_ = d.Reset(nil)
	return size, err
}

func decodingError(err error, bound int64) error {
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return fmt.Errorf("decoding zstd: %w of %d: %w", ErrTooLarge, bound, err)
	}
	return fmt.Errorf("decoding zstd: %w", err)
}

// One encoder for the process: it holds a window of several MiB and lets its
// callers take turns.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(fmt.Sprintf("constant zstd encoder options were refused: %v", err))
	}
	return e
})

// One decoder for the process decodes whole values, as many at once as there
// are processors. It is no pool, because pooled decoders would carry channels
// from one test bubble into another.
var decoder = sync.OnceValue(func() *zstd.Decoder { return newDecoder(0) })

// streams are decoders for values whose frames do not state their size. They
// work in the caller's goroutine and start none.
var streams = sync.Pool{New: func() any { return newDecoder(1) }}

func newDecoder(concurrency int) *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(concurrency),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxValue),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic(fmt.Sprintf("constant zstd decoder options were refused: %v", err))
	}
	return d
}
