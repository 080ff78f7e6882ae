package httpsource

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// web answers every request in a bubble.
type web struct {
	mu    sync.Mutex
	text  string
	err   error
	asked []time.Duration // since the start
	began time.Time
}

func (w *web) RoundTrip(*http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, time.Since(w.began))
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(strings.NewReader(w.text))}, nil
}

func (w *web) set(text string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text, w.err = text, err
}

func (w *web) times() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Duration{}, w.asked...)
}

type fixture struct {
	*Sources
	web     *web
	changes atomic.Int32
}

var errRefused = errors.New("connection refused")

// inBubble follows one document named d.
func inBubble(t *testing.T, w *web, resource v1alpha1.HTTPResource, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w.began = time.Now()
		f := &fixture{web: w}
		f.Sources = New(ctx, Config{Changed: func() { f.changes.Add(1) }, Metrics: NewMetrics(prometheus.NewRegistry()), Transport: w})
		if resource.URL == "" {
			resource.URL = "https://user:secret@host/list?token=secret"
		}
		f.follow(t, resource)
		test(t, f)
		cancel()
		f.Wait()
	})
}

func (f *fixture) follow(t *testing.T, resource v1alpha1.HTTPResource) {
	t.Helper()
	if err := f.Update(map[string]v1alpha1.HTTPResource{"d": resource}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// seen is an offer in short.
type seen struct {
	Text, Settled string
	Fresh, Spare  []string
}

func (f *fixture) offer(t *testing.T) (*Offer, seen) {
	t.Helper()
	o, err := f.Offer()
	if err != nil {
		t.Fatal(err)
	}
	return o, seen{Text: o.Contents(o.Fresh())["d"], Settled: o.Contents(nil)["d"], Fresh: o.Fresh(), Spare: o.Spare()}
}

func (f *fixture) expect(t *testing.T, what string, want seen) *Offer {
	t.Helper()
	o, got := f.offer(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return o
}

var none, onlyD = []string{}, []string{"d"}

func TestNewContentIsUsedOnceItWasAccepted(t *testing.T) {
	inBubble(t, &web{text: "one"}, v1alpha1.HTTPResource{Critical: true}, func(t *testing.T, f *fixture) {
		o := f.expect(t, "the first content, which nothing can replace", seen{Text: "one", Settled: "one", Fresh: onlyD, Spare: none})
		f.Accept(o, o.Fresh())
		f.expect(t, "accepted content", seen{Text: "one", Settled: "one", Fresh: none, Spare: none})
		f.web.set("two", nil)
		pass(2 * time.Minute)
		o = f.expect(t, "new content", seen{Text: "two", Settled: "one", Fresh: onlyD, Spare: onlyD})
		f.Refuse(o, "d", errors.New("HAProxy says no"))
		f.expect(t, "refused content", seen{Text: "one", Settled: "one", Fresh: none, Spare: none})
		want := []string{`httpResource "d" (https://host/list?…): its content sha256:3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3 is refused: HAProxy says no; content sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed stays in use`}
		if diff := cmp.Diff(want, f.Problems()); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		before := f.changes.Load()
		pass(2 * time.Minute)
		f.expect(t, "refused content that was fetched again", seen{Text: "two", Settled: "one", Fresh: onlyD, Spare: onlyD})
		if f.changes.Load() == before {
			t.Error("nobody was told to try the content again")
		}
		f.web.set("one", nil)
		pass(2 * time.Minute)
		f.expect(t, "content that is the old one again", seen{Text: "one", Settled: "one", Fresh: none, Spare: none})
	})
}

func TestContentStaysWhileItCannotBeFetched(t *testing.T) {
	inBubble(t, &web{text: "one"}, v1alpha1.HTTPResource{Critical: true}, func(t *testing.T, f *fixture) {
		o, _ := f.offer(t)
		f.Accept(o, o.Fresh())
		f.web.set("", errRefused)
		pass(time.Hour)
		f.expect(t, "an hour later", seen{Text: "one", Settled: "one", Fresh: none, Spare: none})
		want := []string{`httpResource "d" (https://host/list?…): not fetched: connection refused; content sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed stays in use`}
		if diff := cmp.Diff(want, f.Problems()); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		f.Begin()
		f.expect(t, "in the next term", seen{Text: "one", Settled: "one", Fresh: onlyD, Spare: none})
		f.web.set("one", nil)
		pass(2 * time.Minute)
		if got := f.Problems(); len(got) > 0 {
			t.Errorf("problems after the repair: %v", got)
		}
	})
}

func TestACriticalDocumentThatWasNeverFetchedIsNamed(t *testing.T) {
	inBubble(t, &web{err: errRefused}, v1alpha1.HTTPResource{Critical: true}, func(t *testing.T, f *fixture) {
		_, err := f.Offer()
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) {
			t.Fatalf("Offer() error = %v", err)
		}
		want := `critical httpResource "d" (https://host/list?…): never fetched: connection refused`
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("Offer() error (-want +got):\n%s", diff)
		}
		f.web.set("late", nil)
		pass(2 * time.Minute)
		f.expect(t, "once it was fetched", seen{Text: "late", Settled: "late", Fresh: onlyD, Spare: none})
	})
}

func TestADocumentThatIsNotCriticalIsEmptyUntilItIsFetched(t *testing.T) {
	inBubble(t, &web{err: errRefused}, v1alpha1.HTTPResource{}, func(t *testing.T, f *fixture) {
		f.expect(t, "never fetched", seen{Fresh: none, Spare: none})
		want := []string{`httpResource "d" (https://host/list?…): not fetched: connection refused; its content is empty`}
		if diff := cmp.Diff(want, f.Problems()); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		f.web.set("late", nil)
		pass(2 * time.Minute)
		f.expect(t, "once it was fetched", seen{Text: "late", Fresh: onlyD, Spare: onlyD})
	})
}

// slowWeb answers when it is let.
type slowWeb struct{ answer chan struct{} }

func (s slowWeb) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-s.answer:
		return nil, errRefused
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func TestARenderWaitsForTheFirstFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := New(ctx, Config{Changed: func() {}, Metrics: NewMetrics(prometheus.NewRegistry()), Transport: slowWeb{make(chan struct{})}})
		if err := s.Update(map[string]v1alpha1.HTTPResource{"d": {URL: "http://host/"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := s.Offer(); !errors.Is(err, ErrPending) {
			t.Errorf("Offer() error = %v, want ErrPending", err)
		}
		pass(DefaultTimeout + time.Millisecond)
		if _, err := s.Offer(); err != nil {
			t.Errorf("Offer() error = %v after the bound", err)
		}
		want := []string{`httpResource "d" (http://host/): not fetched: it took longer than 5s; its content is empty`}
		if diff := cmp.Diff(want, s.Problems()); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		cancel()
		s.Wait()
	})
}

func TestFetchesAreSpacedWithJitterAndGrowingPauses(t *testing.T) {
	inBubble(t, &web{text: "one"}, v1alpha1.HTTPResource{Interval: &metav1.Duration{Duration: 30 * time.Second}}, func(t *testing.T, f *fixture) {
		pass(10 * time.Minute)
		if got := len(f.web.times()); got < 18 || got > 21 {
			t.Errorf("%d fetches in ten minutes at an interval of 30 s", got)
		}
		if got := f.changes.Load(); got != 1 {
			t.Errorf("told of changes %d times for one content", got)
		}
		f.web.set("", errRefused)
		before := len(f.web.times())
		pass(10 * time.Minute)
		after := f.web.times()[before:]
		// 1, 2, 4, 8, 16 and then 30 seconds and a little.
		if got := len(after); got < 20 || got > 26 {
			t.Errorf("%d fetches in ten minutes of failures", got)
		}
		if first, last := after[1]-after[0], after[len(after)-1]-after[len(after)-2]; first > 2*time.Second || last < 30*time.Second || last > 33*time.Second {
			t.Errorf("pauses between failures from %s to %s", first, last)
		}
		if got := f.changes.Load(); got != 2 {
			t.Errorf("told of changes %d times for one content and one failure", got)
		}
	})
}

func TestUpdateKeepsWhatIsOfTheSameURL(t *testing.T) {
	inBubble(t, &web{text: "one"}, v1alpha1.HTTPResource{URL: "http://host/a", Critical: true}, func(t *testing.T, f *fixture) {
		f.follow(t, v1alpha1.HTTPResource{URL: "http://host/a", Critical: true})
		if got := len(f.web.times()); got != 1 {
			t.Errorf("%d fetches of a document that stayed the same, want 1", got)
		}
		o, _ := f.offer(t)
		f.Accept(o, o.Fresh())
		f.web.set("", errRefused)
		f.follow(t, v1alpha1.HTTPResource{URL: "http://host/a", Critical: true, Timeout: &metav1.Duration{Duration: time.Second}})
		f.expect(t, "another bound", seen{Text: "one", Settled: "one", Fresh: none, Spare: none})
		f.follow(t, v1alpha1.HTTPResource{URL: "http://host/b", Critical: true})
		if _, err := f.Offer(); err == nil {
			t.Error("the content of one URL is offered for another")
		}
		if err := f.Update(nil); err != nil {
			t.Fatal(err)
		}
		asked := len(f.web.times())
		pass(time.Hour)
		if got := len(f.web.times()); got != asked {
			t.Errorf("%d fetches of a document that is not declared any more", got-asked)
		}
	})
}

func TestValidateRefusesWhatCannotBeFetched(t *testing.T) {
	bytes := func(n int64) *int64 { return &n }
	seconds := func(n time.Duration) *metav1.Duration { return &metav1.Duration{Duration: n * time.Second} }
	tests := []struct {
		name     string
		resource v1alpha1.HTTPResource
		want     string
	}{
		{"another protocol", v1alpha1.HTTPResource{URL: "file:///etc/passwd"}, `httpResource "d": url must begin with http:// or https://, not with "file"`},
		{"no host", v1alpha1.HTTPResource{URL: "http:///x"}, `httpResource "d": url names no host`},
		{"no URL, which is not quoted", v1alpha1.HTTPResource{URL: "http://user:secret@ho st/"}, `httpResource "d": url is none`},
		{"an interval that is none", v1alpha1.HTTPResource{URL: "http://h", Interval: seconds(0)}, `httpResource "d": interval 0s must be at least 1s`},
		{"a bound that is none", v1alpha1.HTTPResource{URL: "http://h", Timeout: seconds(61)}, `httpResource "d": timeout 1m1s must be more than 0s and at most 1m0s`},
		{"a size over the limit", v1alpha1.HTTPResource{URL: "http://h", MaxBytes: bytes(limitBytes + 1)}, `httpResource "d": maxBytes 8388609 must be between 1 and 8388608`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := Validate(map[string]v1alpha1.HTTPResource{"d": tc.resource})
			if err == nil || err.Error() != tc.want {
				t.Errorf("Validate() error = %v, want %s", err, tc.want)
			}
		})
	}
}
