package recovery

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the numbers an operator watches recovery by.
type Metrics struct {
	// Active is 1 from the moment a verified checkpoint is used until a current
	// render has converged or the term ends. Its name is fixed by ADR-0033.
	Active prometheus.Gauge
	// Attempts counts looks at the fleet by outcome: idle, refused, scheduled or
	// cancelled.
	Attempts *prometheus.CounterVec
	// Refusals counts refusals by reason, from the closed list.
	Refusals *prometheus.CounterVec
	// Starts counts pods by outcome: started, rejected or failed.
	Starts *prometheus.CounterVec
}

// Outcomes of attempts and starts.
const (
	outcomeIdle      = "idle"
	outcomeRefused   = "refused"
	outcomeScheduled = "scheduled"
	outcomeCancelled = "cancelled"
	outcomeStarted   = "started"
	outcomeRejected  = "rejected"
	outcomeFailed    = "failed"
)

// NewMetrics makes and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "recovery", Name: name, Help: help,
		}, []string{label})
	}
	m := &Metrics{
		Active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "haptic_retained_config_active",
			Help: "1 while replacement pods are started from a retained checkpoint because nothing can be rendered, else 0.",
		}),
		Attempts: counter("attempts_total", "Looks at the fleet while rendering is blocked, by outcome: idle, refused, scheduled or cancelled.", "outcome"),
		Refusals: counter("refusals_total", "Refusals to use a checkpoint, by reason.", "reason"),
		Starts:   counter("starts_total", "Bootstrap pods given a checkpoint, by outcome: started, rejected or failed.", "outcome"),
	}
	reg.MustRegister(m.Active, m.Attempts, m.Refusals, m.Starts)
	return m
}
