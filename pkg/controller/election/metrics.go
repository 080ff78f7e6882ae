package election

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the numbers an operator watches leadership by.
type Metrics struct {
	// Leading is 1 while this process leads.
	Leading prometheus.Gauge
	// Epoch is that of the term, 0 without one.
	Epoch prometheus.Gauge
	// Terms counts ended terms by how they ended: drained, lost or refused.
	Terms *prometheus.CounterVec
	// Records counts intent records by outcome: recorded, fenced or failed.
	Records *prometheus.CounterVec
}

// NewMetrics makes and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		Leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: "leading",
			Help: "1 while this process leads, else 0.",
		}),
		Epoch: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: "epoch",
			Help: "Epoch of the current term, 0 without one.",
		}),
		Terms: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: "terms_total",
			Help: "Terms of this process by how they ended: drained, lost or refused.",
		}, []string{"end"}),
		Records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: "intent_records_total",
			Help: "Intent records by outcome: recorded, fenced or failed.",
		}, []string{"outcome"}),
	}
	reg.MustRegister(m.Leading, m.Epoch, m.Terms, m.Records)
	return m
}

// How a term ended.
const (
	endDrained = "drained"
	endLost    = "lost"
	endRefused = "refused"
)

// Outcomes of a record.
const (
	outcomeRecorded = "recorded"
	outcomeFenced   = "fenced"
	outcomeFailed   = "failed"
)
