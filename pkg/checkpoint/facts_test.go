package checkpoint

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Facts must stay within a few KiB whatever the content: the API server keeps
// them as long as the objects exist. 64 KiB of configuration, five artifacts of
// 80 KiB each.
func TestFactsAreSmallWhateverTheContent(t *testing.T) {
	const number, bound = 200, 3200
	files := slices.Delete(refFiles()[:6], 1, 2)
	for i := range files {
		files[i].content += strings.Repeat("# content\n", 8000)
	}
	f := newFixture(t, fixtureOptions{configuration: refConfiguration + strings.Repeat("# comment\n", 6500), files: files})
	if v, _ := f.verify(); v.State != Verified || len(v.Findings) > 0 {
		t.Fatalf("the fixture does not verify: %+v", v.Findings)
	}
	checkpoints := make([]*CheckpointFacts, number)
	perCheckpoint := heapOf(number, func(i int) { checkpoints[i] = IngestCheckpoint(f.checkpoint) })
	children := make([][5]*ChildFacts, number)
	perChildren := heapOf(number, func(i int) {
		for c := range f.children {
			children[i][c] = IngestChild(f.children[c])
		}
	})
	t.Logf("%d bytes for each checkpoint, %d for its five children", perCheckpoint, perChildren)
	if perCheckpoint > bound || perChildren > bound {
		t.Errorf("the bound is %d bytes", bound)
	}
	runtime.KeepAlive(checkpoints)
	runtime.KeepAlive(children)
}

// heapOf is what each call of make leaves on the heap.
func heapOf(number int, make func(i int)) uint64 {
	make(0) // fill pools
	before := heap()
	for i := range number {
		make(i)
	}
	return (heap() - before) / uint64(number)
}

func heap() uint64 {
	for range 4 { // pools let go of their items in two rounds, finalizers after them
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
