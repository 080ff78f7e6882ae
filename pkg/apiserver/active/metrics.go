package active

import "github.com/prometheus/client_golang/prometheus"

// Metrics tell which replica is active, and how often that changed.
type Metrics struct {
	Active    prometheus.Gauge
	Takeovers prometheus.Counter
}

// NewMetrics registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		Active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "holdfast", Subsystem: "apiserver", Name: "active",
			Help: "1 while this replica is the one that clients reach, else 0.",
		}),
		Takeovers: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "apiserver", Name: "takeovers_total",
			Help: "How often this process became the active replica.",
		}),
	}
	reg.MustRegister(m.Active, m.Takeovers)
	return m
}
