package httpsource

import "github.com/prometheus/client_golang/prometheus"

// Outcomes of fetches.
const (
	outcomeChanged   = "changed"
	outcomeUnchanged = "unchanged"
	outcomeFailed    = "failed"
)

// Metrics are the numbers of all documents together.
type Metrics struct {
	fetches  *prometheus.CounterVec
	refusals prometheus.Counter
}

// NewMetrics makes and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: "http_fetches_total",
			Help: "Fetches of httpResources, by outcome: changed, unchanged or failed.",
		}, []string{"outcome"}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "controller", Name: "http_refusals_total",
			Help: "Fetched contents that were not used because an output with them failed.",
		}),
	}
	reg.MustRegister(m.fetches, m.refusals)
	return m
}
