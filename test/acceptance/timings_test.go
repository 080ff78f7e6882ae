package acceptance

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"
)

// timings are those of all tests, printed at the end of a run.
var timings timingTable

type timingTable struct {
	mu sync.Mutex
	// took is by what was timed; order keeps the order of first appearance.
	took  map[timingKey][]time.Duration
	order []timingKey
}

// timingKey tells a test that ran alone from the same one beside all others.
type timingKey struct{ test, what string }

func (tt *timingTable) add(test, what string, took time.Duration) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	key := timingKey{test, what}
	if _, known := tt.took[key]; !known {
		tt.order = append(tt.order, key)
	}
	if tt.took == nil {
		tt.took = map[timingKey][]time.Duration{}
	}
	tt.took[key] = append(tt.took[key], took)
}

func (tt *timingTable) print(out io.Writer) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if len(tt.order) == 0 {
		return
	}
	fmt.Fprintln(out, "timings: seconds; runs, minimum, median, maximum")
	for _, key := range tt.order {
		took := slices.Sorted(slices.Values(tt.took[key]))
		fmt.Fprintf(out, "  %3d %7.2f %7.2f %7.2f  %s: %s\n", len(took), took[0].Seconds(),
			took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), key.test, key.what)
	}
}

// note keeps a timing and shows it.
func note(t *testing.T, what string, took time.Duration) {
	t.Helper()
	timings.add(t.Name(), what, took)
	t.Logf("timing: %s: %.2f s", what, took.Seconds())
}
