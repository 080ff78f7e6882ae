package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
)

// Metrics are the numbers an operator watches rendering and deployment by.
type Metrics struct {
	// Renders counts attempts by outcome: accepted, unchanged or failed.
	Renders *prometheus.CounterVec
	// RenderSeconds is the time of an attempt, gate included.
	RenderSeconds prometheus.Histogram
	// Blocked is 1 while the newest inputs have no valid output.
	Blocked prometheus.Gauge
	// Pods is the number of discovered proxy pods.
	Pods prometheus.Gauge
	// Deployments counts pods served by outcome: served, noop, scheduled, rejected or
	// failed.
	Deployments *prometheus.CounterVec
}

// Outcomes of renders and deployments.
const (
	outcomeAccepted  = "accepted"
	outcomeUnchanged = "unchanged"
	outcomeFailed    = "failed"
	outcomeRejected  = "rejected"
	outcomeScheduled = "scheduled"
	outcomeServed    = "served"
	outcomeNoop      = "noop"
)

// NewMetrics makes and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "controller", Name: name, Help: help})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: name, Help: help,
		}, []string{"outcome"})
	}
	m := &Metrics{
		Renders: counter("renders_total", "Attempts to render while leading, by outcome: accepted, unchanged or failed."),
		RenderSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: "render_duration_seconds",
			Help:    "Time of an attempt to render, HAProxy's check included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
		Blocked:     gauge("render_blocked", "1 while the newest inputs have no valid output and this process leads, else 0."),
		Pods:        gauge("proxy_pods", "Discovered proxy pods while this process leads."),
		Deployments: counter("deployments_total", "Outputs brought to a pod, by outcome: served, noop, scheduled, rejected or failed."),
	}
	reg.MustRegister(m.Renders, m.RenderSeconds, m.Blocked, m.Pods, m.Deployments)
	return m
}

func (m *Metrics) rendered(o outcome) {
	result := outcomeAccepted
	switch {
	case o.failed:
		result = outcomeFailed
	case o.unchanged:
		result = outcomeUnchanged
	}
	m.Renders.WithLabelValues(result).Inc()
	m.RenderSeconds.Observe(o.took.Seconds())
	m.Blocked.Set(0)
	if o.failed {
		m.Blocked.Set(1)
	}
}

func (m *Metrics) deployed(r deploy.Report) {
	result := outcomeServed
	switch {
	case r.Rejected:
		result = outcomeRejected
	case r.Scheduled:
		result = outcomeScheduled
	case !r.Receipt:
		result = outcomeFailed
	case r.Entry.Mode == outcomeNoop:
		result = outcomeNoop
	}
	m.Deployments.WithLabelValues(result).Inc()
}
