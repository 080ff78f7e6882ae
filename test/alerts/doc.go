// Package alerts tests the alerts that are shipped, with Prometheus's own tool.
package alerts
