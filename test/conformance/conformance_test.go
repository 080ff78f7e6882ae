package conformance

import (
	"fmt"
	"testing"
)

// difference is where our answer may differ from the built-in one.
type difference struct {
	builtin, ours string
	why           string
}

func TestOursAnswersAsABuiltInResourceDoes(t *testing.T) {
	config := clusterConfig(t)
	want, got := run(t, builtin(t, config)), run(t, ours(t, config))
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

func run(t *testing.T, subject *subject) map[string]string {
	t.Helper()
	s := &session{T: t, subject: subject, ctx: t.Context()}
	answers := map[string]string{}
	for _, step := range script() {
		if _, twice := answers[step.name]; twice {
			t.Fatalf("two steps are called %q", step.name)
		}
		answers[step.name] = step.ask(s)
	}
	return answers
}
