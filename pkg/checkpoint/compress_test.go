package checkpoint

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readTestdata(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "zstd", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestStore(t *testing.T) {
	random := make([]byte, 100)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	repeated := []byte(strings.Repeat("a", 100))
	tests := []struct {
		name       string
		content    []byte
		threshold  int64
		compressed bool
	}{
		{name: "above the threshold", content: repeated, threshold: 99, compressed: true},
		{name: "at the threshold", content: repeated, threshold: 100},
		{name: "no threshold", content: repeated, threshold: 0},
		{name: "a negative threshold", content: repeated, threshold: -1},
		{name: "content that does not shrink", content: random, threshold: 1},
		{name: "nothing", content: nil, threshold: 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			text, compressed := Store(tc.content, tc.threshold)
			if compressed != tc.compressed || compressed && len(text) >= len(tc.content) || !compressed && text != string(tc.content) {
				t.Errorf("Store of %d bytes: compressed %t, %d characters", len(tc.content), compressed, len(text))
			}
			back, err := Load(text, compressed, nil)
			if err != nil || !bytes.Equal(tc.content, back) {
				t.Errorf("Load gave %d bytes of %d: %v", len(back), len(tc.content), err)
			}
		})
	}
}

// The files were written by the zstd command at several levels, with and without
// checksum, in two frames, from a stream, and with line breaks in the base64.
func TestLoadReadsEveryCompressorAndSpelling(t *testing.T) {
	plain := readTestdata(t, "plain.txt")
	files, err := filepath.Glob(filepath.Join("testdata", "zstd", "level*.txt"))
	if err != nil || len(files) != 12 {
		t.Fatalf("test data: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := readTestdata(t, filepath.Base(file))
			content, err := Load(text, true, NewBudget())
			if err != nil {
				t.Fatalf("Load: %v", err)
			}
			if diff := cmp.Diff(plain, string(content)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			files := refFiles()
			files[3].content = plain
			f := newFixture(t, fixtureOptions{configuration: plain, files: files})
			want, _ := f.verify()
			f.checkpoint.Content, f.checkpoint.Compressed = text, true
			f.child(t, certificateRow).Text, f.child(t, certificateRow).Compressed = text, true
			v, _ := f.verify()
			if v.State != Verified {
				t.Errorf("verdict %s, %s: %s", v.State, v.Reason, v.Message)
			}
			if diff := cmp.Diff(want, v); diff != "" {
				t.Errorf("the verdict differs from the one on plain content (-plain +compressed):\n%s", diff)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	lying := func(size uint32, blocks ...byte) string {
		frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0} // single segment, four bytes of size
		frame = binary.LittleEndian.AppendUint32(frame, size)
		return base64.StdEncoding.EncodeToString(append(frame, blocks...))
	}
	emptyLastBlock := []byte{1, 0, 0}
	tests := []struct {
		name, text string
		compressed bool
		tooLarge   bool
	}{
		{name: "no base64", text: "KLUv/*", compressed: true},
		{name: "the URL alphabet", text: "KLUv_QQAAQAAmenYUQ==", compressed: true},
		{name: "no padding", text: base64.RawStdEncoding.EncodeToString([]byte("four")), compressed: true},
		{name: "no zstd", text: base64.StdEncoding.EncodeToString([]byte("not compressed")), compressed: true},
		{name: "nothing", text: "", compressed: true},
		{name: "a frame without end", text: lying(10), compressed: true},
		{name: "a frame that claims more than it holds", text: lying(64<<20, emptyLastBlock...), compressed: true},
		{name: "a frame that claims more than the bound", text: lying(64<<20+1, emptyLastBlock...), compressed: true, tooLarge: true},
		{name: "a frame that claims the most there is", text: lying(0xffffffff, emptyLastBlock...), compressed: true, tooLarge: true},
		{name: "plain text beyond the bound", text: strings.Repeat("a", MaxValue+1), tooLarge: true},
		{name: "base64 beyond the bound", text: strings.Repeat("A", 90<<20), compressed: true, tooLarge: true},
		{name: "a GiB whose size is stated", text: readTestdata(t, "bomb-sized.txt"), compressed: true, tooLarge: true},
		{name: "a GiB whose size is not stated", text: readTestdata(t, "bomb-stream.txt"), compressed: true, tooLarge: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(tc.text, tc.compressed, nil)
			if err == nil {
				t.Fatal("Load accepted it")
			}
			if errors.Is(err, ErrTooLarge) != tc.tooLarge {
				t.Errorf("Load error: %v; want too large: %t", err, tc.tooLarge)
			}
		})
	}
}

func TestABudgetBoundsAllValuesTogether(t *testing.T) {
	budget := NewBudget()
	half := strings.Repeat("a", MaxTotal/2)
	for range 2 {
		if _, err := Load(half, false, budget); err != nil {
			t.Fatalf("Load within the budget: %v", err)
		}
	}
	if _, err := Load("a", false, budget); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Load beyond the budget: %v", err)
	}
	packed, _ := Store([]byte(strings.Repeat("a", 1000)), 1)
	if _, err := Load(packed, true, budget); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Load of a compressed value beyond the budget: %v", err)
	}
	if _, err := Load("", false, budget); err != nil {
		t.Errorf("Load of nothing with an exhausted budget: %v", err)
	}
}

// A small value that expands to 1 GiB is a verdict, fast and within the bound.
func TestABombIsAVerdict(t *testing.T) {
	for _, name := range []string{"bomb-sized.txt", "bomb-stream.txt"} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, fixtureOptions{})
			bomb := readTestdata(t, name)
			f.checkpoint.Content, f.checkpoint.Compressed = bomb, true
			f.child(t, certificateRow).Text, f.child(t, certificateRow).Compressed = bomb, true
			f.checkpoint.RetainedPlan = bomb
			f.rename()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			v, _ := f.verify()
			elapsed := time.Since(start)
			runtime.ReadMemStats(&after)
			var reasons []Reason
			for _, finding := range v.Findings {
				reasons = append(reasons, finding.Reason)
			}
			want := []Reason{ReasonTooLarge, ReasonTooLarge, ReasonTooLarge, ReasonReceiptMissing}
			if diff := cmp.Diff(want, reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
			t.Logf("three bombs took %v and %d KiB", elapsed, (after.TotalAlloc-before.TotalAlloc)>>10)
		})
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"", "KLUv/QQAAQAAmenYUQ==", "plain", readTestdata(f, "level3.txt"), readTestdata(f, "level1-two-frames.txt")} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, compressed bool) {
		content, err := Load(text, compressed, NewBudget())
		if err != nil {
			return
		}
		if len(content) > MaxValue {
			t.Fatalf("%d bytes came through", len(content))
		}
		again, packed := Store(content, 1)
		back, err := Load(again, packed, nil)
		if err != nil || !bytes.Equal(content, back) {
			t.Fatalf("stored again: %d bytes of %d: %v", len(back), len(content), err)
		}
	})
}
