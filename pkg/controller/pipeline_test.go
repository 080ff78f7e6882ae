package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/controller/httpsource"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

// world is everything around a pipeline.
type world struct {
	changed signal

	mu       sync.Mutex
	template *v1alpha1.HAProxyTemplateConfig
	inputErr error
	value    string
	size     error
	verdict  gate.Verdict
	checks   int
	// refuses is a text that HAProxy does not take in an output.
	refuses string
	// answers are the documents by path; what is not there is unreachable.
	answers  map[string]string
	told     []string
	problems []string
	accepted []uint64
	// outputs are the configurations that were dispatched.
	outputs []string
	// story is what became of outputs, in order.
	story []string
	// slow is how long a check takes.
	slow time.Duration
	// onDispatch runs while an output is being dispatched.
	onDispatch func()
	// stop ends renders, and ended is closed when the pipeline has.
	stop  func()
	ended chan struct{}
}

func newWorld() *world {
	w := &world{changed: newSignal(), verdict: gate.Verdict{Outcome: gate.Valid, Version: "2.6.12"}, value: "one"}
	w.template = &v1alpha1.HAProxyTemplateConfig{}
	w.template.Name, w.template.Generation = "edge", 1
	w.template.Spec.HAProxyConfig.Template = "global\n  default-path config\n{{ range resources \"c\" }}# {{ .data.v }}\n{{ end }}"
	return w
}

func (w *world) Snapshot(context.Context) (render.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inputErr != nil {
		return nil, w.inputErr
	}
	return render.Snapshot{"c": {Objects: []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "n"}, "data": map[string]any{"v": w.value},
	}}}}}, nil
}

func (w *world) Check(ctx context.Context, output *checkpoint.Output) (gate.Verdict, error) {
	w.mu.Lock()
	slow := w.slow
	w.mu.Unlock()
	select {
	case <-ctx.Done():
		return gate.Verdict{}, ctx.Err()
	case <-time.After(slow):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks++
	if w.refuses != "" && bytes.Contains(output.Configuration, []byte(w.refuses)) {
		return gate.Verdict{Outcome: gate.Refused, Version: "2.6.12", Message: "unknown keyword " + w.refuses}, nil
	}
	return w.verdict, nil
}

// RoundTrip answers for every server.
func (w *world) RoundTrip(request *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, ok := w.answers[request.URL.Path]
	if !ok {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// change alters the world and says so.
func (w *world) change(alter func()) {
	w.mu.Lock()
	alter()
	w.mu.Unlock()
	w.changed.raise()
}

func (w *world) take(o outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = o.problems
	line := o.reason
	if o.unchanged {
		line += " unchanged"
	}
	if o.message != "" {
		line += ": " + o.message
	}
	w.told = append(w.told, line)
}

func (w *world) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.told...)
}

func (w *world) dispatched() []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]uint64{}, w.accepted...)
}

type worldOutlet struct{ *world }

func (o worldOutlet) dispatch(_ context.Context, c *deploy.Candidate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accepted = append(o.accepted, c.Sequence)
	if o.onDispatch != nil {
		o.onDispatch()
	}
	o.outputs = append(o.outputs, string(c.Output.Configuration))
	o.story = append(o.story, fmt.Sprintf("dispatched %d", c.Sequence))
}

func (o worldOutlet) passed(_ context.Context, c *deploy.Candidate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.story = append(o.story, fmt.Sprintf("passed %d", c.Sequence))
}

func (o worldOutlet) refused(_ context.Context, c, back *deploy.Candidate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := fmt.Sprintf("refused %d", c.Sequence)
	if back != nil {
		line += fmt.Sprintf(", back as %d", back.Sequence)
	}
	o.story = append(o.story, line)
}

func (o worldOutlet) told(_ context.Context, out outcome) { o.take(out) }

func inPipeline(t *testing.T, w *world, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// A channel belongs to the bubble it was made in.
		w.changed = newSignal()
		ctx, cancel := context.WithCancel(t.Context())
		fetched := httpsource.New(ctx, httpsource.Config{
			Changed: w.changed.raise, Metrics: httpsource.NewMetrics(prometheus.NewRegistry()), Transport: w,
		})
		if err := fetched.Update(w.template.Spec.HTTPResources); err != nil {
			t.Fatal(err)
		}
		p := &pipeline{sources: sources{
			template: func() *v1alpha1.HAProxyTemplateConfig {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.template
			},
			inputs: w, documents: fetched, gate: w, changed: w.changed,
			checkSize: func(*checkpoint.Output) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.size
			},
		}, outlet: worldOutlet{w}}
		renders, stop := context.WithCancel(ctx)
		w.stop, w.ended = stop, make(chan struct{})
		go func() {
			defer close(w.ended)
			p.run(ctx, renders)
		}()
		synctest.Wait()
		test(t)
		cancel()
		<-w.ended
		fetched.Wait()
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestATermRendersOnceAndThenAfterChanges(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		if diff := cmp.Diff([]uint64{1}, w.dispatched()); diff != "" {
			t.Errorf("first render (-want +got):\n%s", diff)
		}
		pass(time.Hour)
		w.change(func() {})
		pass(time.Second)
		w.change(func() { w.value = "two" })
		pass(time.Second)
		if diff := cmp.Diff([]string{"Accepted", "Accepted unchanged", "Accepted"}, w.lines()); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]uint64{1, 2}, w.dispatched()); diff != "" {
			t.Errorf("dispatched (-want +got):\n%s", diff)
		}
		if w.checks != 2 {
			t.Errorf("HAProxy was asked %d times for two outputs", w.checks)
		}
	})
}

func TestAChangeAfterAQuietSpellIsRenderedAtOnce(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		pass(time.Second)
		for i := range 3 { // the events of one change
			w.change(func() { w.value = fmt.Sprint(i) })
			pass(settle / 2)
		}
		pass(settle)
		if got := len(w.lines()); got != 2 {
			t.Errorf("%d renders after one change, want the first and one more", got)
		}
		for i := range 10 {
			w.change(func() { w.value = fmt.Sprint("x", i) })
			pass(settle)
		}
		pass(debounce)
		if got := len(w.lines()); got != 3 {
			t.Errorf("%d renders after a burst, want one more", got)
		}
	})
}

func TestManyChangesCostOneRenderButNotForEver(t *testing.T) {
	w := newWorld()
	inPipeline(t, w, func(t *testing.T) {
		for i := range 10 {
			w.change(func() { w.value = fmt.Sprint(i) })
			pass(debounce / 2)
		}
		if got := len(w.lines()); got != 1 {
			t.Errorf("%d renders while the inputs were moving, want only the first", got)
		}
		pass(debounce)
		if got := len(w.lines()); got != 2 {
			t.Errorf("%d renders after they were quiet, want 2", got)
		}
		for i := range 60 { // three seconds without a pause
			w.change(func() { w.value = fmt.Sprint("x", i) })
			pass(debounce / 2)
		}
		if got := len(w.lines()); got < 4 || got > 5 {
			t.Errorf("%d renders within three seconds of changes, want one a second more", got)
		}
	})
}

var errForbidden = &render.Error{Reason: render.ReasonInputUnavailable, Err: errors.New(`watched resource "c" is forbidden`)}

// failures are the ways in which inputs have no valid output.
var failures = []struct {
	name string
	fail func(*world)
	want string
	// ahead says that the gate judges what was dispatched already; sequence is the
	// next output's.
	ahead    bool
	sequence uint64
}{
	{
		name: "a template that cannot be parsed",
		fail: func(w *world) {
			broken := w.template.DeepCopy()
			broken.Generation, broken.Spec.HAProxyConfig.Template = 2, "{{ end }}"
			w.template = broken
		},
		want: "TemplateInvalid: haproxyConfig: line 1: unexpected {{end}}",
	},
	{
		name: "a watched kind that is forbidden",
		fail: func(w *world) { w.inputErr = errForbidden },
		want: `InputUnavailable: watched resource "c" is forbidden`,
	},
	{
		name: "an output that the store would not take",
		fail: func(w *world) {
			w.value, w.size = "two", errors.New("maps/a.map is stored in 3000000 bytes, the limit is 1572864")
		},
		want: "TooLarge: maps/a.map is stored in 3000000 bytes, the limit is 1572864",
	},
	{
		name: "an output that HAProxy refuses, with the template's line",
		fail: func(w *world) {
			w.value = "two"
			w.verdict = gate.Verdict{Outcome: gate.Refused, Version: "2.6.12", Message: "parsing [haproxy.cfg:3] : unknown keyword", Line: 3}
		},
		want:  "GateRefused: HAProxy 2.6.12 refuses the configuration: parsing [haproxy.cfg:3] : unknown keyword (from haproxyConfig line 3)",
		ahead: true, sequence: 4, // the output before came back as 3
	},
	{
		name: "a gate without a verdict",
		fail: func(w *world) {
			w.value, w.verdict = "two", gate.Verdict{Outcome: gate.Unknown, Message: "took too long"}
		},
		want:  "GateUnknown: HAProxy gave no verdict: took too long",
		ahead: true, sequence: 3,
	},
}

func TestFailuresAreToldAndTheGatesAloneComeAfterDispatch(t *testing.T) {
	for _, tc := range failures {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			good := w.template
			inPipeline(t, w, func(t *testing.T) {
				w.change(func() { tc.fail(w) })
				pass(time.Second)
				lines := w.lines()
				if diff := cmp.Diff(tc.want, lines[len(lines)-1]); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				want, next := []uint64{1}, uint64(2)
				if tc.ahead {
					want, next = []uint64{1, 2}, tc.sequence
				}
				if diff := cmp.Diff(want, w.dispatched()); diff != "" {
					t.Errorf("dispatched (-want +got):\n%s", diff)
				}
				w.change(func() {
					w.template, w.inputErr, w.size, w.verdict.Outcome, w.value = good, nil, nil, gate.Valid, "three"
				})
				pass(time.Second)
				if diff := cmp.Diff(append(want, next), w.dispatched()); diff != "" {
					t.Errorf("dispatched after the repair (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAGateWithoutVerdictIsAskedAgain(t *testing.T) {
	w := newWorld()
	w.verdict = gate.Verdict{Outcome: gate.Unknown, Message: "took too long"}
	inPipeline(t, w, func(t *testing.T) {
		pass(10 * time.Minute)
		if w.checks < 5 || w.checks > 20 {
			t.Errorf("HAProxy was asked %d times in ten minutes, want a growing pause", w.checks)
		}
		w.mu.Lock()
		w.verdict = gate.Verdict{Outcome: gate.Valid}
		w.mu.Unlock()
		pass(maxRetryRender + time.Second)
		if diff := cmp.Diff([]uint64{1}, w.dispatched()); diff != "" {
			t.Errorf("dispatched (-want +got):\n%s", diff)
		}
	})
}

func TestInputsMayTakeTheirTimeToSync(t *testing.T) {
	w := newWorld()
	w.inputErr = &render.Error{Reason: render.ReasonInputUnavailable, Err: fmt.Errorf("watched resource \"c\": %w", render.ErrNotSynced)}
	inPipeline(t, w, func(t *testing.T) {
		pass(syncGrace - time.Second)
		if got := w.lines(); len(got) > 0 {
			t.Errorf("told %v within the grace time", got)
		}
		pass(maxRetryRender)
		got := w.lines()
		if len(got) == 0 || !strings.HasPrefix(got[0], "InputUnavailable: ") {
			t.Errorf("told %v after the grace time", got)
		}
		w.change(func() { w.inputErr = nil })
		pass(time.Second)
		if diff := cmp.Diff([]uint64{1}, w.dispatched()); diff != "" {
			t.Errorf("dispatched (-want +got):\n%s", diff)
		}
	})
}
