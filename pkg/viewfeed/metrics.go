package viewfeed

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metrics are the numbers an operator alarms on. One is made per process.
type Metrics struct {
	// Checkpoints counts checkpoints by the state of their verdict.
	Checkpoints *prometheus.GaugeVec
	// Intents tells each condition of each template's intent: 1 for its status.
	Intents *prometheus.GaugeVec
	// Judgements counts verdicts that were computed.
	Judgements prometheus.Counter
	// LiveReads counts reads beside the streams, by what was read and outcome.
	LiveReads *prometheus.CounterVec
	// Streams tells the state of each stream of stored objects: 1 for the present one.
	Streams *prometheus.GaugeVec
	// Ready is 1 once the first round of verification is through.
	Ready prometheus.Gauge
	// SlowWatchers counts watches that were closed because nobody read them.
	SlowWatchers prometheus.Counter
}

// NewMetrics returns registered metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	const namespace, subsystem = "holdfast", "apiserver"
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
	}
	m := &Metrics{
		Checkpoints:  prometheus.NewGaugeVec(gauge("checkpoints", "Stored checkpoints by verdict: Verified, Damaged or Unknown."), []string{"state"}),
		Intents:      prometheus.NewGaugeVec(gauge("intent_condition", "Conditions of deployment intents: 1 for the status that each has."), []string{"template_namespace", "template", "condition", "status"}),
		Judgements:   prometheus.NewCounter(counter("judgements_total", "Verdicts computed, whether or not they changed a view.")),
		LiveReads:    prometheus.NewCounterVec(counter("live_reads_total", "Reads beside the streams, by task (checkpoint or child) and outcome (ok, absent, changed or failed)."), []string{"task", "outcome"}),
		Streams:      prometheus.NewGaugeVec(gauge("stream_state", "State of the streams of stored objects by kind: waiting, streaming, absent or forbidden. Counts streams."), []string{"kind", "state"}),
		Ready:        prometheus.NewGauge(gauge("ready", "1 once the first round of verification is through.")),
		SlowWatchers: prometheus.NewCounter(counter("slow_watchers_total", "Watches closed because the client did not read.")),
	}
	reg.MustRegister(m.Checkpoints, m.Intents, m.Judgements, m.LiveReads, m.Streams, m.Ready, m.SlowWatchers)
	return m
}

// conditions replaces what is told of one template's intent.
func (m *Metrics) conditions(namespace, template string, conditions []metav1.Condition) {
	m.Intents.DeletePartialMatch(prometheus.Labels{"template_namespace": namespace, "template": template})
	for _, c := range conditions {
		m.Intents.WithLabelValues(namespace, template, c.Type, string(c.Status)).Set(1)
	}
}
