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

	masterRestarts   prometheus.Counter
	oldWorkers       prometheus.Gauge
	oldWorkersStop   prometheus.Counter
	workersResident  prometheus.Gauge
	reloadsScheduled prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "agent", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "agent", Name: name, Help: help}
	}
	m := &metrics{
		applies: prometheus.NewCounterVec(counter("apply_total",
			"Applies that were carried out, by outcome: reload, scheduled, file_only, noop or rejected."), []string{"mode"}),
		rejections: prometheus.NewCounterVec(counter("apply_rejected_total",
			"Applies that were turned down, by stage: reload, unresolved, conflict, missing, or the stage of a request error."), []string{"stage"}),
		violations: prometheus.NewCounterVec(counter("invariant_violations_total",
			"Times that something which must always hold was found broken, by name."), []string{"name"}),
		reloads: prometheus.NewCounterVec(counter("reloads_total",
			"Reloads asked of HAProxy, by result: reload, rejected or unresolved."), []string{"result"}),
		rollbacks: prometheus.NewCounter(counter("rollbacks_total",
			"Times that the set before was made current again.")),
		generation: prometheus.NewGauge(gauge("generation", "Successful applies of this pod, over restarts of its agent.")),
		masterRestarts: prometheus.NewCounter(counter("master_restarts_total",
			"Times that another HAProxy master was found than the one before.")),
		oldWorkers: prometheus.NewGauge(gauge("old_workers",
			"Workers of earlier loads that still have connections; -1 while the master's table cannot be read.")),
		oldWorkersStop: prometheus.NewCounter(counter("old_workers_stopped_total",
			"Old workers whose connections were closed because a reload would have left too many behind.")),
		workersResident: prometheus.NewGauge(gauge("workers_resident_bytes",
			"Memory of the current and all old workers together; -1 where their processes cannot be seen.")),
		reloadsScheduled: prometheus.NewCounter(counter("reloads_scheduled_total",
			"Reloads that were put off to the end of the minimum interval; newer applies join one that is.")),
	}
	reg.MustRegister(m.applies, m.rejections, m.violations, m.reloads, m.rollbacks, m.generation,
		m.masterRestarts, m.oldWorkers, m.oldWorkersStop, m.workersResident, m.reloadsScheduled)
	return m
}

// see shows the master's table.
func (m *metrics) see(seen observation) {
	if seen.MasterPID == 0 {
		m.oldWorkers.Set(-1)
		return
	}
	m.oldWorkers.Set(float64(len(seen.Old)))
}
