package publish

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the numbers an operator watches publication by.
type Metrics struct {
	// Publishes counts attempts by what was published and how it ended.
	Publishes *prometheus.CounterVec
	// LargestObject is the stored size of the largest object of the newest
	// accepted output, to be compared with ObjectLimit.
	LargestObject prometheus.Gauge
	// ObjectLimit is the size at which an output is refused.
	ObjectLimit prometheus.Gauge
	// Pointers is the length of the pointer list.
	Pointers prometheus.Gauge
	// DroppedPointers counts pointers that were wanted and had no room.
	DroppedPointers prometheus.Counter
	// DroppedReceipts counts receipts that were never stored, because newer ones
	// needed their place in the queue.
	DroppedReceipts prometheus.Counter
	// HiddenPods is the number of living pods whose entries had no room.
	HiddenPods prometheus.Gauge
	// Collected counts deleted objects by kind.
	Collected *prometheus.CounterVec
}

// NewMetrics makes and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "holdfast", Subsystem: "controller", Name: name, Help: help}
	}
	m := &Metrics{
		Publishes: prometheus.NewCounterVec(prometheus.CounterOpts(opts("publishes_total",
			"Publications by what (output, checkpoint, status) and outcome: stored, unchanged, blocked, fenced, refused or failed.")),
			[]string{"what", "outcome"}),
		LargestObject: prometheus.NewGauge(prometheus.GaugeOpts(opts("largest_object_bytes",
			"Stored size of the largest object of the newest accepted output."))),
		ObjectLimit: prometheus.NewGauge(prometheus.GaugeOpts(opts("object_limit_bytes",
			"Stored size at which an object is refused before anything is applied."))),
		Pointers: prometheus.NewGauge(prometheus.GaugeOpts(opts("checkpoint_pointers",
			"Checkpoints that the ordinary output points at."))),
		DroppedPointers: prometheus.NewCounter(prometheus.CounterOpts(opts("checkpoint_pointers_dropped_total",
			"Checkpoints that a pod still reports and that had no room in the pointer list."))),
		DroppedReceipts: prometheus.NewCounter(prometheus.CounterOpts(opts("receipts_dropped_total",
			"Receipts of superseded outputs that made room for newer ones before they were stored."))),
		HiddenPods: prometheus.NewGauge(prometheus.GaugeOpts(opts("pods_without_entry",
			"Living pods whose status entries do not fit into the stored objects."))),
		Collected: prometheus.NewCounterVec(prometheus.CounterOpts(opts("collected_objects_total",
			"Stored objects deleted because nothing references them, by kind.")), []string{"kind"}),
	}
	m.ObjectLimit.Set(maxObjectBytes)
	reg.MustRegister(m.Publishes, m.LargestObject, m.ObjectLimit, m.Pointers, m.DroppedPointers,
		m.DroppedReceipts, m.HiddenPods, m.Collected)
	return m
}

// What was published.
const (
	whatOutput     = "output"
	whatCheckpoint = "checkpoint"
	whatStatus     = "status"
)

// How it ended.
const (
	outcomeStored    = "stored"
	outcomeUnchanged = "unchanged"
	outcomeBlocked   = "blocked"
	outcomeFenced    = "fenced"
	outcomeRefused   = "refused"
	outcomeFailed    = "failed"
)
