package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
)

// lived is what became of outputs so far.
func (w *world) lived() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.story...)
}

func (w *world) expectStory(t *testing.T, when string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, w.lived()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// render gives the world another output and the time to get it through a render.
func (w *world) render(value string) {
	w.change(func() { w.value = value })
	pass(debounce)
}

func TestTheFirstOutputWaitsForItsVerdictAndLaterOnesDoNot(t *testing.T) {
	w := newWorld()
	w.slow = 5 * time.Second
	inPipeline(t, w, func(t *testing.T) {
		pass(4 * time.Second)
		w.expectStory(t, "before the first verdict")
		pass(time.Second)
		w.expectStory(t, "after the first verdict", "dispatched 1", "passed 1")
		w.render("two")
		w.expectStory(t, "before the second verdict", "dispatched 1", "passed 1", "dispatched 2")
		if diff := cmp.Diff([]string{"Accepted"}, w.lines()); diff != "" {
			t.Errorf("told before the second verdict (-want +got):\n%s", diff)
		}
		pass(5 * time.Second)
		w.expectStory(t, "after the second verdict", "dispatched 1", "passed 1", "dispatched 2", "passed 2")
	})
}

func TestAFirstOutputThatIsRefusedIsNeverDispatched(t *testing.T) {
	w := newWorld()
	w.refuses = "one"
	inPipeline(t, w, func(t *testing.T) {
		w.expectStory(t, "after the verdict")
		w.slow = 5 * time.Second
		w.render("two")
		w.expectStory(t, "the next one waits as well")
		pass(5 * time.Second)
		w.expectStory(t, "and goes with its verdict", "dispatched 2", "passed 2")
	})
}

func TestARefusalMakesOutputsWaitUntilOnePasses(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		w.refuses = "bad"
		w.render("bad one")
		story := []string{"dispatched 1", "passed 1", "dispatched 2", "refused 2, back as 3"}
		w.expectStory(t, "after the refusal", story...)
		w.render("bad two")
		w.expectStory(t, "another bad one is not dispatched", story...)
		w.mu.Lock()
		w.slow = 5 * time.Second
		w.mu.Unlock()
		w.render("three")
		pass(time.Second)
		w.expectStory(t, "a good one waits too", story...)
		pass(5 * time.Second)
		story = append(story, "dispatched 5", "passed 5")
		w.expectStory(t, "until it has passed", story...)
		w.render("four")
		w.expectStory(t, "and the next one does not", append(story, "dispatched 6")...)
	})
}

// Pods that loaded the refused output keep it only until the next output: the one
// from before is one, if the inputs go back to it.
func TestTheOutputBeforeIsDispatchedAnewAfterARefusal(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		w.refuses = "bad"
		w.render("bad")
		w.render("one")
		story := []string{"dispatched 1", "passed 1", "dispatched 2", "refused 2, back as 3", "dispatched 4", "passed 4"}
		w.expectStory(t, "after the inputs went back", story...)
		w.render("one")
		w.expectStory(t, "and once only", story...)
		lines := w.lines()
		if got := lines[len(lines)-1]; got != "Accepted unchanged" {
			t.Errorf("the last outcome is %q", got)
		}
	})
}

// An output that passed when a newer one was there is not with the fleet, and
// nothing to go back to.
func TestOutputsWaitUntilOneThatPassedIsDispatched(t *testing.T) {
	w := newWorld()
	w.refuses, w.slow = "bad", 5*time.Second
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		w.render("two")
		pass(4 * time.Second)
		w.render("bad")
		pass(20 * time.Second)
		w.expectStory(t, "two that were replaced and one that is refused")
		w.render("four")
		pass(5 * time.Second)
		w.expectStory(t, "at last", "dispatched 4", "passed 4")
	})
}

func TestATimeOutTakesNothingBackAndPublishesNothing(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		w.verdict = gate.Verdict{Outcome: gate.Unknown, Message: "took too long"}
		w.render("two")
		pass(time.Minute)
		story := []string{"dispatched 1", "passed 1", "dispatched 2"}
		w.expectStory(t, "without a verdict", story...)
		w.render("three")
		story = append(story, "dispatched 3")
		w.expectStory(t, "the next one", story...)
		w.mu.Lock()
		w.verdict = gate.Verdict{Outcome: gate.Valid}
		w.mu.Unlock()
		pass(2 * maxRetryRender)
		w.expectStory(t, "when the verdict comes", append(story, "passed 3")...)
	})
}

// An output that was replaced before its verdict is taken back by itself.
func TestARefusalOfAnOlderOutputLeavesTheNewerOneDispatched(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		w.refuses, w.slow = "bad", 5*time.Second
		w.render("bad")
		w.render("three")
		pass(10 * time.Second)
		w.expectStory(t, "at last", "dispatched 1", "passed 1", "dispatched 2", "dispatched 3", "refused 2", "passed 3")
		lines := w.lines()
		if got := lines[len(lines)-1]; got != "Accepted" {
			t.Errorf("the last outcome is %q, want that of the newest inputs", got)
		}
	})
}

// A verdict on older inputs says nothing about the newest.
func TestAnOlderVerdictDoesNotHideANewerFailure(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		w.slow = 5 * time.Second
		w.render("two")
		w.change(func() { w.inputErr = errForbidden })
		pass(10 * time.Second)
		w.expectStory(t, "at last", "dispatched 1", "passed 1", "dispatched 2", "passed 2")
		lines := w.lines()
		if got := lines[len(lines)-1]; got != "InputUnavailable: "+errForbidden.Error() {
			t.Errorf("the last outcome is %q, want the failure", got)
		}
	})
}

// TestAStoppedPipelineLearnsWhatBecomesOfTheLastDispatch: nothing new, but the
// verdict on what the fleet was given.
func TestAStoppedPipelineLearnsWhatBecomesOfTheLastDispatch(t *testing.T) {
	tests := []struct {
		name, refuses, value string
		want                 string
	}{
		{name: "it passes", value: "two", want: "passed 2"},
		{name: "it is refused", value: "bad", refuses: "bad", want: "refused 2, back as 3"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			inPipeline(t, w, func(t *testing.T) {
				w.refuses, w.slow = tc.refuses, 3*time.Second
				w.render(tc.value)
				w.stop()
				w.render("three")
				<-w.ended
				w.expectStory(t, "at the end", "dispatched 1", "passed 1", "dispatched 2", tc.want)
			})
		})
	}
}

// Inputs that break while the first output waits for its verdict leave the term
// without one: publication is blocked, so the output must not become the intent.
func TestAFirstOutputOfReplacedInputsIsLeftOut(t *testing.T) {
	w := newWorld()
	w.slow = 5 * time.Second
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		w.change(func() { w.inputErr = errForbidden })
		pass(10 * time.Second)
		w.expectStory(t, "after a verdict on inputs that are gone")
		w.change(func() { w.inputErr = nil })
		pass(10 * time.Second)
		w.expectStory(t, "when they are back", "dispatched 2", "passed 2")
	})
}

// A stop that comes while an output is being dispatched does not keep from anybody
// that it was accepted: what was blocked before would stay so over the drain.
func TestAStopAmidDispatchIsToldOfTheOutput(t *testing.T) {
	w := newWorld()
	w.inputErr = errForbidden
	inPipeline(t, w, func(t *testing.T) {
		pass(5 * time.Second)
		w.mu.Lock()
		w.inputErr, w.value, w.onDispatch = nil, "two", w.stop
		w.mu.Unlock()
		w.changed.raise()
		<-w.ended
		lines := w.lines()
		if got := lines[len(lines)-1]; got != "Accepted" {
			t.Errorf("the last outcome is %q, want that of the dispatched output", got)
		}
	})
}

func TestReceiptsAreKeptUntilTheirOutputPassed(t *testing.T) {
	var w withheld
	report := func(sequence uint64, pod string) deploy.Report {
		return deploy.Report{Sequence: sequence, Pod: deploy.Pod{UID: pod}, Receipt: true}
	}
	w.begin(1)
	for _, r := range []deploy.Report{report(1, "a"), report(1, "b"), report(1, "a"), report(2, "a")} {
		if w.mayPublish(r) {
			t.Errorf("receipt of pod %s for output %d may be published without a verdict", r.Pod.UID, r.Sequence)
		}
	}
	if got := w.release(1); len(got) != 2 {
		t.Errorf("%d receipts released, want one a pod", len(got))
	}
	if !w.mayPublish(report(1, "c")) {
		t.Error("a receipt after the verdict may not be published")
	}
	w.forgetBefore(2)
	if w.mayPublish(report(1, "c")) {
		t.Error("a receipt may be published of an output that was replaced")
	}
	for sequence := range uint64(2 * maxUndecided) {
		w.begin(10 + sequence)
	}
	if got := len(w.outputs); got > maxUndecided {
		t.Errorf("%d outputs are remembered, the bound is %d", got, maxUndecided)
	}
}

// refuser is a gate that refuses what says so, after a while.
type refuser struct{ slow time.Duration }

func (g refuser) Check(ctx context.Context, output *checkpoint.Output) (gate.Verdict, error) {
	select {
	case <-ctx.Done():
		return gate.Verdict{}, ctx.Err()
	case <-time.After(g.slow):
	}
	if slices.ContainsFunc(output.Artifacts, func(a checkpoint.Artifact) bool { return string(a.Content) == "refuse" }) {
		return gate.Verdict{Outcome: gate.Refused, Message: "as asked"}, nil
	}
	return gate.Verdict{Outcome: gate.Valid}, nil
}

// refusable is a version that the refuser refuses.
func refusable(n int) v1alpha1.HAProxyTemplateConfigSpec {
	spec := version(n)
	spec.Files["bad.http"] = v1alpha1.Template{Template: "refuse"}
	return spec
}

// A whole controller: nothing that has no verdict becomes a checkpoint, be it
// acknowledged or the last one before a stop.
func TestNoCheckpointIsMadeOfAnOutputWithoutAVerdict(t *testing.T) {
	for _, drained := range []bool{false, true} {
		t.Run(fmt.Sprintf("drained: %t", drained), func(t *testing.T) {
			install(t, func(t *testing.T, in *installation) {
				in.gate = refuser{slow: 3 * time.Second}
				pod := in.addPod()
				in.set(version(1))
				leader := in.start("c1")
				pass(2 * time.Minute)
				first := in.intent()
				if got := in.newest().Checksum; got != first.Checksum || got == "" {
					t.Fatalf("the newest checkpoint is %q, want the first intent's, %q", got, first.Checksum)
				}
				in.set(refusable(2))
				pass(2 * time.Second)
				second := in.intent()
				if second.Checksum == first.Checksum || len(pod.loaded()) != 2 {
					t.Fatalf("the second output was not dispatched ahead of its verdict: %v", pod.loaded())
				}
				if drained {
					leader.end()
					in.must(leader.err)
				} else {
					pass(5 * time.Minute)
				}
				if got := in.newest().Checksum; got != first.Checksum {
					t.Errorf("the newest checkpoint is %q, want still the first output's, %q", got, first.Checksum)
				}
				if got := in.intent(); got.Checksum != first.Checksum {
					t.Errorf("the intent is %q, want that of the output before, %q", got.Checksum, first.Checksum)
				}
			})
		})
	}
}

// A drain that would end before the verdict waits for it.
func TestADrainPublishesWhatPassesMeanwhile(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		in.gate = refuser{slow: 5 * time.Second}
		in.addPod()
		in.set(version(1))
		leader := in.start("c1")
		pass(2 * time.Minute)
		in.set(version(2))
		pass(2 * time.Second)
		intent := in.intent()
		leader.end()
		in.must(leader.err)
		if got := in.newest().Checksum; got != intent.Checksum {
			t.Errorf("the newest checkpoint is %q, want the intent's, %q", got, intent.Checksum)
		}
	})
}

// The throttle has long passed, the receipt is there, and the verdict is not.
func TestAReceiptIsNotPublishedAheadOfTheVerdict(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		in.gate = refuser{slow: 3 * throttle}
		pod := in.addPod()
		in.set(version(1))
		in.start("c1")
		pass(5 * throttle)
		first := in.intent()
		in.set(version(2))
		pass(2 * throttle)
		if got := in.newest().Checksum; got != first.Checksum || len(pod.loaded()) != 2 {
			t.Errorf("the newest checkpoint is %q, want the first output's, %q; the pod loaded %v", got, first.Checksum, pod.loaded())
		}
		pass(3 * throttle)
		if got := in.newest().Checksum; got != in.intent().Checksum {
			t.Errorf("after the verdict the newest checkpoint is %q, want the intent's", got)
		}
	})
}
