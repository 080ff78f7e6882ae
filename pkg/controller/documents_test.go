package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const documentHead = "global\n  default-path config\n"

// withDocuments is a world whose template prints the documents a and b.
func withDocuments(critical bool, answers map[string]string) *world {
	w := newWorld()
	w.answers = answers
	w.template.Spec.HAProxyConfig.Template = documentHead + `# {{ http "a" }} {{ http "b" }}` + "\n"
	w.template.Spec.HTTPResources = map[string]v1alpha1.HTTPResource{}
	for _, name := range []string{"a", "b"} {
		w.template.Spec.HTTPResources[name] = v1alpha1.HTTPResource{
			URL: "http://user:secret@host/" + name + "?token=secret", Critical: critical,
			Interval: &metav1.Duration{Duration: 10 * time.Second},
		}
	}
	return w
}

// answer changes what servers say, without a change of anything watched.
func (w *world) answer(alter func()) {
	w.mu.Lock()
	alter()
	w.mu.Unlock()
	pass(time.Minute + 20*time.Second)
}

func (w *world) documentProblems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problems
}

func (w *world) expect(t *testing.T, what string, outputs, problems []string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, text := range w.outputs {
		got = append(got, text[len(documentHead)+2:len(text)-1])
	}
	if diff := cmp.Diff(outputs, got); diff != "" {
		t.Errorf("%s: dispatched (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(problems, w.problems); diff != "" {
		t.Errorf("%s: problems (-want +got):\n%s", what, diff)
	}
}

func TestNewContentReachesPodsOnlyAfterHAProxysCheck(t *testing.T) {
	w := withDocuments(true, map[string]string{"/a": "a1", "/b": "b1"})
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		w.expect(t, "at first", []string{"a1 b1"}, nil)
		w.answer(func() { w.answers["/a"], w.refuses = "bad", "bad" })
		refused := []string{`httpResource "a" (http://host/a?…): its content sha256:2f05d4b689d270cafb02285f35f44866f7dc8a2d368a3f9d1124373eeab31fb1 is refused: ` +
			`HAProxy 2.6.12 refuses the configuration: unknown keyword bad; content sha256:f55ff16f66f43360266b95db6f8fec01d76031054306ae4a4b380598f6cfd114 stays in use`}
		w.expect(t, "after new content that is refused", []string{"a1 b1"}, refused)
		lines := w.lines()
		if got := lines[len(lines)-1]; got != "Accepted unchanged" {
			t.Errorf("the last outcome is %q, the inputs have a valid output", got)
		}
		w.change(func() { w.answers["/b"] = "b2" })
		pass(time.Minute)
		w.expect(t, "another document goes on", []string{"a1 b1", "a1 b2"}, refused)
		w.answer(func() { w.answers["/a"] = "a3" })
		w.expect(t, "after the repair", []string{"a1 b1", "a1 b2", "a3 b2"}, nil)
	})
}

func TestOfSeveralNewContentsTheGoodOnesAreUsed(t *testing.T) {
	w := withDocuments(true, map[string]string{"/a": "a1", "/b": "b1"})
	// Both documents must be new at the same look: the template holds the render.
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		good := w.template
		w.change(func() { w.template = brokenTemplate(good) })
		pass(time.Second)
		w.answer(func() { w.answers["/a"], w.answers["/b"], w.refuses = "bad", "b2", "bad" })
		w.expect(t, "while nothing renders", []string{"a1 b1"}, nil)
		w.change(func() { w.template = good })
		pass(time.Second)
		w.expect(t, "with one bad content", []string{"a1 b1", "a1 b2"}, w.documentProblems())
		if got := w.documentProblems(); len(got) != 1 {
			t.Errorf("problems: %v", got)
		}
	})
}

func brokenTemplate(of *v1alpha1.HAProxyTemplateConfig) *v1alpha1.HAProxyTemplateConfig {
	broken := of.DeepCopy()
	broken.Spec.HAProxyConfig.Template = `{{ fail "broken" }}`
	return broken
}

func TestContentIsNotToBlameForAnotherFailure(t *testing.T) {
	w := withDocuments(true, map[string]string{"/a": "a1", "/b": "b1"})
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		good := w.template
		w.change(func() { w.template = brokenTemplate(good) })
		w.answer(func() { w.answers["/a"] = "a2" })
		w.expect(t, "while the template is broken", []string{"a1 b1"}, nil)
		w.change(func() { w.template = good })
		pass(time.Second)
		w.expect(t, "after the repair", []string{"a1 b1", "a2 b1"}, nil)
	})
}

func TestACriticalDocumentThatWasNeverFetchedIsARenderFailure(t *testing.T) {
	w := withDocuments(true, map[string]string{"/b": "b1"})
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		want := []string{`InputUnavailable: critical httpResource "a" (http://host/a?…): never fetched: connection refused`}
		if diff := cmp.Diff(want, slices.Compact(w.lines())); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		w.answer(func() { w.answers["/a"] = "a1" })
		w.expect(t, "once it was fetched", []string{"a1 b1"}, nil)
		w.answer(func() { delete(w.answers, "/a") })
		w.expect(t, "once it is unreachable again", []string{"a1 b1"}, []string{
			`httpResource "a" (http://host/a?…): not fetched: connection refused; content sha256:f55ff16f66f43360266b95db6f8fec01d76031054306ae4a4b380598f6cfd114 stays in use`,
		})
	})
}

func TestADocumentThatIsNotCriticalHoldsNothingUp(t *testing.T) {
	w := withDocuments(false, map[string]string{"/b": "b1"})
	inPipeline(t, w, func(t *testing.T) {
		problem := []string{`httpResource "a" (http://host/a?…): not fetched: connection refused; its content is empty`}
		pass(time.Second)
		w.expect(t, "at first", []string{" b1"}, problem)
		w.answer(func() { w.answers["/a"], w.refuses = "bad", "bad" })
		w.expect(t, "with a first content that is refused", []string{" b1"}, w.documentProblems())
		if got := w.documentProblems(); len(got) != 1 {
			t.Errorf("problems: %v", got)
		}
		w.answer(func() { w.answers["/a"] = "a1" })
		w.expect(t, "with good content", []string{" b1", "a1 b1"}, nil)
	})
}

func TestADocumentThatIsTooLargeIsARenderFailureOfSize(t *testing.T) {
	w := withDocuments(true, map[string]string{"/a": "0123456789", "/b": "b1"})
	limit := int64(4)
	a := w.template.Spec.HTTPResources["a"]
	a.MaxBytes = &limit
	w.template.Spec.HTTPResources["a"] = a
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		want := []string{`TooLarge: critical httpResource "a" (http://host/a?…): never fetched: the document has at least 5 bytes, the limit is 4`}
		if diff := cmp.Diff(want, slices.Compact(w.lines())); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

func TestADocumentThatCannotBeDeclaredIsTheTemplatesFault(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		w.change(func() {
			broken := w.template.DeepCopy()
			broken.Spec.HTTPResources = map[string]v1alpha1.HTTPResource{"a": {URL: "gopher://user:secret@host/"}}
			w.template = broken
		})
		pass(time.Second)
		want := []string{"Accepted", `TemplateInvalid: httpResource "a": url must begin with http:// or https://, not with "gopher"`}
		if diff := cmp.Diff(want, slices.Compact(w.lines())); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

func TestReportTellsOfDocuments(t *testing.T) {
	s := newStore()
	s.object.Spec.HTTPResources = map[string]v1alpha1.HTTPResource{"a": {URL: "http://host/"}}
	r := s.reporter()
	report := func(problems ...string) []metav1.Condition {
		r.report(t.Context(), outcome{template: s.object.DeepCopy(), reason: reasonAccepted, problems: problems})
		var out []metav1.Condition
		for _, c := range s.object.Status.Conditions {
			if c.Type == v1alpha1.ConditionHTTPResources {
				out = append(out, metav1.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message})
			}
		}
		return out
	}
	want := []metav1.Condition{{Status: metav1.ConditionFalse, Reason: reasonNotCurrent, Message: "a is refused; b is away"}}
	if diff := cmp.Diff(want, report("a is refused", "b is away")); diff != "" {
		t.Errorf("condition with problems (-want +got):\n%s", diff)
	}
	writes := s.writes
	report("a is refused", "b is away")
	if s.writes != writes {
		t.Error("the same problems were written twice")
	}
	if diff := cmp.Diff([]metav1.Condition{{Status: metav1.ConditionTrue, Reason: reasonCurrent}}, report()); diff != "" {
		t.Errorf("condition without problems (-want +got):\n%s", diff)
	}
	s.object.Spec.HTTPResources = nil
	if got := report(); len(got) > 0 {
		t.Errorf("a template without documents has the condition %v", got)
	}
	wantEvents := []string{"Normal Accepted: " + messageAccepted, "Warning HTTPResourcesNotCurrent: a is refused; b is away"}
	if diff := cmp.Diff(wantEvents, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
