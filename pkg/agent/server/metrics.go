package server

import "github.com/prometheus/client_golang/prometheus"

// metrics are the numbers an operator alarms on.
type metrics struct {
	applies    *prometheus.CounterVec
	rejections *prometheus.CounterVec
	violations *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	rollbacks  prometheus.Counter
	generation prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "agent", Name: name, Help: help}
	}
	m := &metrics{
		applies: prometheus.NewCounterVec(counter("apply_total",
			"Applies that were carried out, by outcome: reload, noop or rejected."), []string{"mode"}),
		rejections: prometheus.NewCounterVec(counter("apply_rejected_total",
			"Applies that were turned down, by stage: reload, unresolved, conflict, missing, or the stage of a request error."), []string{"stage"}),
		violations: prometheus.NewCounterVec(counter("invariant_violations_total",
			"Times that something which must always hold was found broken, by name."), []string{"name"}),
		reloads: prometheus.NewCounterVec(counter("reloads_total",
			"Reloads asked of HAProxy, by result: reload, rejected or unresolved."), []string{"result"}),
		rollbacks: prometheus.NewCounter(counter("rollbacks_total",
			"Times that the set before was made current again.")),
		generation: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "agent", Name: "generation",
			Help: "Successful applies of this pod, over restarts of its agent."}),
	}
	reg.MustRegister(m.applies, m.rejections, m.violations, m.reloads, m.rollbacks, m.generation)
	return m
}
