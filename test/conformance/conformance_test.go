package conformance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

// difference is where our answer may differ from the built-in one.
type difference struct {
	builtin, ours string
	why           string
}

func TestOursAnswersAsABuiltInResourceDoes(t *testing.T) {
	config := owncluster.Config(t)
	subjects := []*subject{builtin(t, config), ours(t, config)}
	answers := make([]map[string]string, len(subjects))
	var running sync.WaitGroup
	for i, subject := range subjects {
		running.Go(func() { answers[i] = run(t, subject) })
	}
	running.Wait()
	want, got := answers[0], answers[1]
	listed := differences()
	for _, step := range script() {
		d, isListed := listed[step.name]
		w, g := want[step.name], got[step.name]
		switch {
		case isListed && (d.builtin != w || d.ours != g):
			t.Errorf("row %d, %s: the difference is not as listed\nbuilt-in: %s\n  listed: %s\nours:     %s\n  listed: %s", step.row, step.name, w, d.builtin, g, d.ours)
		case isListed:
			t.Logf("row %d, %s differs: %s", step.row, step.name, d.why)
		case w != g:
			t.Errorf("row %d, %s: a difference that is not listed\nbuilt-in: %s\nours:     %s", step.row, step.name, w, g)
		}
		delete(listed, step.name)
	}
	for name := range listed {
		t.Errorf("the listed difference %q is of no step", name)
	}
	fmt.Printf("conformance: %d steps, %d differences listed, failed: %v\n", len(script()), len(differences()), t.Failed())
}

// run puts the script to a subject.
func run(t *testing.T, subject *subject) map[string]string {
	s := &session{T: t, subject: subject, ctx: t.Context()}
	s.first = s.version()
	answers := map[string]string{}
	var (
		running sync.WaitGroup
		lock    sync.Mutex
	)
	ask := func(step step) {
		answer := step.ask(s)
		lock.Lock()
		defer lock.Unlock()
		if _, twice := answers[step.name]; twice {
			t.Errorf("two steps are called %q", step.name)
		}
		answers[step.name] = answer
	}
	for _, step := range script() {
		if !step.writes {
			running.Go(func() { ask(step) })
			continue
		}
		running.Wait()
		ask(step)
	}
	running.Wait()
	return answers
}
