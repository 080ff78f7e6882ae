package apiserver

import "github.com/prometheus/client_golang/prometheus"

// registerRemaining tells how long the serving certificate is still good.
func registerRemaining(reg prometheus.Registerer, c servingCertificate) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "holdfast", Subsystem: "apiserver", Name: "serving_certificate_remaining_seconds",
		Help: "How long the serving certificate is still valid; negative after it expired, 0 if it cannot be read.",
	}, c.remaining))
}
