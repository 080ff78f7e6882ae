package main

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
)

const (
	// intentRecords is how many records are counted; each must cost the same.
	intentRecords = 20
	// intentRequests are 2 reads of the leader-election Lease, and a read and a
	// write of the retained-state Lease.
	intentRequests = 4
	intentLimit    = time.Minute
)

// measureIntent leads a real term and counts what its records ask of the API
// server.
func measureIntent(ctx context.Context, c *cluster, _ settings, r *report) error {
	outputs, err := newOutputs(ctx, smallShape)
	if err != nil {
		return err
	}
	template := outputs.template.DeepCopy()
	template.Namespace = termNamespace
	template, err = c.stored.HapticV1alpha1().HAProxyTemplateConfigs(termNamespace).Create(ctx, template, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("storing the template: %w", err)
	}
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counter{next} })
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a counting client: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, intentLimit)
	defer stop()
	recorder := &recorder{stop: stop}
	e, err := election.New(election.SettingsFor(template, election.NewIdentity("bench")),
		core.CoordinationV1().Leases(termNamespace), c.stored.HapticV1alpha1().HAProxyTemplateConfigs(termNamespace),
		recorder, election.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		return err
	}
	// The election's own log lines are not about the measurement.
	if err := e.Run(klog.NewContext(ctx, klog.Logger{})); err != nil {
		return err
	}
	if recorder.err != nil {
		return recorder.err
	}
	if len(recorder.records) != intentRecords {
		return fmt.Errorf("%d of %d intents were recorded within %s", len(recorder.records), intentRecords, intentLimit)
	}
	say("  each record: %s; median %s", recorder.records[0], median(recorder.durations))
	r.add(target{name: "intent-record-requests", value: float64(len(recorder.records[0].requests)), bound: intentRequests, relation: equal})
	return recorder.alike(checkpoint.RetainedStateLeaseName(template.Name))
}

// recorder leads one term, records intents, and stops the election.
type recorder struct {
	stop      context.CancelFunc
	records   []*tally
	durations []time.Duration
	err       error
}

// Announce has no agent to tell.
func (*recorder) Announce(context.Context, uint64) []uint64 { return nil }

// Drain has nothing under way.
func (*recorder) Drain(context.Context, *election.Term) {}

// Lead records one intent after another, each for another output.
func (l *recorder) Lead(ctx context.Context, term *election.Term) {
	defer l.stop()
	for i := range intentRecords {
		asked := &tally{}
		started := time.Now()
		name := fmt.Sprintf("%016x", i+1)
		if l.err = term.Record(context.WithValue(ctx, tallyKey{}, asked), name, name); l.err != nil {
			return
		}
		l.durations = append(l.durations, time.Since(started))
		l.records = append(l.records, asked)
	}
}

// alike requires that every record asked for the same, and for nothing but what
// the order of reads and the write demands.
func (l *recorder) alike(retained string) error {
	for _, asked := range l.records {
		got := asked.String()
		if got != l.records[0].String() {
			return fmt.Errorf("records differ: %s, and %s", l.records[0], got)
		}
		if writes := strings.Count(got, http.MethodPut); writes != 1 || !strings.Contains(got, http.MethodPut+" "+retained) {
			return fmt.Errorf("a record is %s, expected one write of %s", got, retained)
		}
	}
	return nil
}

// tally is what was asked of the API server on behalf of one call.
type tally struct {
	mu       sync.Mutex
	requests []string
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.requests, ", ")
}

type tallyKey struct{}

// counter counts the requests whose context carries a tally, so that what the
// elector does in between is left out.
type counter struct {
	next http.RoundTripper
}

// RoundTrip notes method and object name.
func (c counter) RoundTrip(request *http.Request) (*http.Response, error) {
	if t, ok := request.Context().Value(tallyKey{}).(*tally); ok {
		t.mu.Lock()
		t.requests = append(t.requests, request.Method+" "+path.Base(request.URL.Path))
		t.mu.Unlock()
	}
	return c.next.RoundTrip(request)
}
