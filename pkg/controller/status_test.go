package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// store is one template at an API server that enforces resource versions.
type store struct {
	object *v1alpha1.HAProxyTemplateConfig
	// other writes ahead of ours, that many times.
	other  int
	writes int
	events []string
}

func newStore() *store {
	s := &store{object: &v1alpha1.HAProxyTemplateConfig{}}
	s.object.Name, s.object.UID, s.object.ResourceVersion, s.object.Generation = "edge", "u", "1", 3
	return s
}

func (s *store) Get(context.Context, string, metav1.GetOptions) (*v1alpha1.HAProxyTemplateConfig, error) {
	return s.object.DeepCopy(), nil
}

func (s *store) UpdateStatus(_ context.Context, o *v1alpha1.HAProxyTemplateConfig, _ metav1.UpdateOptions) (*v1alpha1.HAProxyTemplateConfig, error) {
	if s.other > 0 {
		s.other--
		s.object.ResourceVersion += "x"
	}
	if o.ResourceVersion != s.object.ResourceVersion {
		return nil, apierrors.NewConflict(v1alpha1.Resource("haproxytemplateconfigs"), o.Name, errors.New("modified"))
	}
	s.writes++
	s.object = o.DeepCopy()
	s.object.ResourceVersion += "y"
	return s.object.DeepCopy(), nil
}

func (s *store) Event(_ runtime.Object, kind, reason, message string) {
	s.events = append(s.events, fmt.Sprintf("%s %s: %s", kind, reason, message))
}

func (s *store) reporter() *reporter {
	return newReporter(s, s, func(context.Context) error { return nil })
}

func TestReportWritesTheConditionOnceAndTellsNewsOnly(t *testing.T) {
	s := newStore()
	r := s.reporter()
	failed := outcome{failed: true, reason: "RenderFailed", message: "line 3: no key"}
	for range 3 {
		failed.template = s.object.DeepCopy()
		r.report(t.Context(), failed)
	}
	if s.writes != 1 {
		t.Errorf("%d writes for one failure told three times", s.writes)
	}
	want := []metav1.Condition{{Type: "Validated", Status: metav1.ConditionFalse, Reason: "RenderFailed", Message: "line 3: no key", ObservedGeneration: 3}}
	if diff := cmp.Diff(want, s.object.Status.Conditions, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	r.report(t.Context(), outcome{template: s.object.DeepCopy(), reason: reasonAccepted})
	r.report(t.Context(), outcome{template: s.object.DeepCopy(), reason: reasonAccepted})
	wantEvents := []string{"Warning RenderFailed: line 3: no key", "Normal Accepted: " + messageAccepted}
	if diff := cmp.Diff(wantEvents, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if s.object.Status.Conditions[0].Status != metav1.ConditionTrue || s.object.Status.ObservedGeneration != 3 || s.writes != 2 {
		t.Errorf("after the repair: %d writes, status %+v", s.writes, s.object.Status)
	}
}

func TestReportMeetsConflictsByReadingAgain(t *testing.T) {
	s := newStore()
	stale := s.object.DeepCopy()
	s.other = 2
	s.reporter().report(t.Context(), outcome{template: stale, failed: true, reason: "TooLarge", message: strings.Repeat("ä", 2000)})
	if s.writes != 1 {
		t.Errorf("%d writes, want 1", s.writes)
	}
	if got := s.events[0]; len(got) > len("Warning TooLarge: ")+maxNoteBytes {
		t.Errorf("the event has %d bytes", len(got))
	}
}

// TestAStatusThatFailedIsWrittenLater: the next render may be an hour away. Only the
// newest counts, and what cannot be written is given up.
func TestAStatusThatFailedIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := s.reporter()
		var failure atomic.Pointer[error]
		fail := func(err error) { failure.Store(&err) }
		fail(errors.New("no answer"))
		r.check = func(context.Context) error { return *failure.Load() }
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		running.Go(func() { r.Run(ctx) })
		report := func(o outcome) {
			o.template = s.object.DeepCopy()
			r.report(ctx, o)
		}
		report(outcome{failed: true, reason: "TooLarge"})
		report(outcome{failed: true, reason: "RenderFailed"})
		time.Sleep(time.Minute)
		fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.writes != 1 || s.object.Status.Conditions[0].Reason != "RenderFailed" {
			t.Errorf("%d writes, status %+v, want one of the newest failure", s.writes, s.object.Status)
		}
		fail(fmt.Errorf("checking the term: %w", fencing.ErrFenced))
		report(outcome{reason: reasonAccepted})
		fail(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.writes != 1 {
			t.Errorf("%d writes, want none behind the end of the term", s.writes)
		}
		stop()
		running.Wait()
	})
}

func TestReportWritesNothingWithoutItsTermOrTemplate(t *testing.T) {
	s := newStore()
	r := s.reporter()
	r.check = func(context.Context) error { return errors.New("fenced") }
	r.report(t.Context(), outcome{template: s.object.DeepCopy(), reason: reasonAccepted})
	if s.writes != 0 {
		t.Error("wrote a status after the term was over")
	}
	stale := s.object.DeepCopy()
	s.object.UID, s.object.ResourceVersion = "another", "9"
	s.reporter().report(t.Context(), outcome{template: stale, reason: reasonAccepted})
	if s.writes != 0 {
		t.Error("wrote the status of one template to another of the same name")
	}
}
