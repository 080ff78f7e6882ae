package publish

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// tally counts requests by verb.
func tally(requests []request) map[string]int {
	counts := map[string]int{}
	for _, r := range requests {
		counts[r.Verb]++
	}
	return counts
}

func TestOrdinaryPublicationMakesTheFewestRequests(t *testing.T) {
	t.Parallel()
	api, f := newAPI(t), &fence{}
	p := newPublisher(api, f)
	steps := []struct {
		name   string
		output *checkpoint.Output
		want   map[string]int
	}{
		{name: "the first publication", output: site(t, "a"), want: map[string]int{"get": 1, "list": 4, "create": 6, "status": 1}},
		{name: "nothing changed", output: site(t, "a"), want: map[string]int{"get": 1, "list": 4}},
		{
			name: "one map changed", output: site(t, "b"),
			want: map[string]int{"get": 1, "list": 4, "update": 1, "create": 1, "status": 1, "delete": 1},
		},
	}
	for _, step := range steps {
		api.took()
		f.checks = 0
		must(t, p.outputNow(t, step.output))
		requests := api.took()
		if diff := cmp.Diff(step.want, tally(requests)); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", step.name, diff)
		}
		writes := 0
		for _, r := range requests {
			if r.writes() {
				writes++
			}
			if r.Verb == "get" && r.Kind != v1alpha1.KindCfg {
				t.Errorf("%s: a child was read: %+v", step.name, r)
			}
		}
		if f.checks != writes {
			t.Errorf("%s: %d checks of the term for %d writes", step.name, f.checks, writes)
		}
	}
}

// wide is an output with ten files of each kind, of which that many of each
// carry the version.
func wide(t testing.TB, version string, changed int) *checkpoint.Output {
	files := map[string]string{}
	for i := range 10 {
		content := fmt.Sprint("x", i, " y\n")
		if i < changed {
			content = fmt.Sprint(version, i, " y\n")
		}
		for _, pattern := range []string{"maps/%d.map", "ssl/%d.pem", "ca/%d.pem", "lists/%d.txt", "files/%d.http"} {
			files[fmt.Sprintf(pattern, i)] = content
		}
	}
	return output(t, "# "+version+"\nglobal\n", files)
}

// The server counts: k files created or claimed again cost at most k + 4 creates
// and updates, a kind at most two lists, a file no read, and nothing is deleted
// but what is collected.
func TestCheckpointPublicationMakesTheFewestRequests(t *testing.T) {
	t.Parallel()
	api, f := newAPI(t), &fence{}
	p := newPublisher(api, f)
	const all, some = 50, 15
	steps := []struct {
		name   string
		output *checkpoint.Output
		// k files must be created or claimed anew, lists are made of each kind.
		k, lists, deletes int
	}{
		{name: "the first checkpoint", output: wide(t, "a", 3), k: all, lists: 2},
		{name: "some files changed", output: wide(t, "b", 3), k: some, lists: 2},
		{name: "the same output again", output: wide(t, "b", 3), lists: 1},
		{name: "back to the predecessor", output: wide(t, "a", 3), lists: 1},
		{name: "a third output, so that b goes", output: wide(t, "c", 3), k: some, lists: 2, deletes: some + 1},
		{name: "b again", output: wide(t, "b", 3), k: some, lists: 2, deletes: some + 1},
	}
	for _, step := range steps {
		must(t, p.outputNow(t, step.output))
		api.took()
		f.set(func(f *fence) { f.checks = 0 })
		collected := collectedBy(t, p)
		must(t, p.checkpointNow(t, step.output))
		requests := api.took()
		counts, lists, writes := tally(requests), map[string]int{}, 0
		for _, r := range requests {
			if r.Failed && r.writes() {
				t.Errorf("%s: failed: %+v", step.name, r)
			}
			if r.writes() {
				writes++
			}
			if r.Kind == v1alpha1.KindCfg {
				continue
			}
			if r.Verb == "get" {
				t.Errorf("%s: a child was read: %+v", step.name, r)
			}
			if r.Verb == "list" {
				lists[r.Kind]++
			}
		}
		if made := counts["create"] + counts["update"] + counts["status"]; made > step.k+4 {
			t.Errorf("%s: %d creates and updates for %d children: %v", step.name, made, step.k, counts)
		}
		for kind, n := range lists {
			if n != step.lists {
				t.Errorf("%s: %d lists of %s, want %d", step.name, n, kind, step.lists)
			}
		}
		if counts["delete"] != step.deletes || collectedBy(t, p)-collected != float64(step.deletes) {
			t.Errorf("%s: %d deletions, want %d", step.name, counts["delete"], step.deletes)
		}
		if f.checks < writes {
			t.Errorf("%s: %d checks of the term for %d writes", step.name, f.checks, writes)
		}
	}
}

func collectedBy(t *testing.T, p *Publisher) float64 {
	t.Helper()
	sum := 0.0
	for _, kind := range []string{
		v1alpha1.KindCfg, v1alpha1.KindMapFile, v1alpha1.KindGeneralFile, v1alpha1.KindCRTListFile, v1alpha1.KindSecret,
	} {
		sum += valueOf(t, p.metrics.Collected.WithLabelValues(kind))
	}
	return sum
}

func TestFilesAreWrittenSideBySideWithinABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		p := newPublisher(api, &fence{})
		o := wide(t, "a", 3)
		must(t, p.outputNow(t, o))
		var mu sync.Mutex
		under, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			under += by
			most = max(most, under)
		}
		api.hooks(func(r request) error {
			if r.writes() {
				count(1)
				time.Sleep(time.Second)
				count(-1)
			}
			return nil
		}, nil)
		began := time.Now()
		must(t, p.checkpointNow(t, o))
		// The object, its 50 files by eights, its status, and the pointer.
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("publication took %s with writes of a second", took)
		}
		if most != maxParallelWrites {
			t.Errorf("%d writes at once, want %d", most, maxParallelWrites)
		}
	})
}

func TestAfterAFailureNoOtherFileIsStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var started []int
		var mu sync.Mutex
		err := inParallel(t.Context(), 100, func(i int) error {
			mu.Lock()
			started = append(started, i)
			mu.Unlock()
			time.Sleep(time.Second)
			if i == 3 {
				return errDown
			}
			return nil
		})
		if err != errDown {
			t.Errorf("inParallel() = %v", err)
		}
		if len(started) > 2*maxParallelWrites {
			t.Errorf("%d were started: %v", len(started), slices.Sorted(slices.Values(started)))
		}
	})
}
