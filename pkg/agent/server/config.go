package server

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what an agent needs to know about its pod.
type Config struct {
	// Dir is the folder shared with HAProxy's container.
	Dir string
	// PodName and PodUID are the pod this agent answers for.
	PodName string
	PodUID  string
	// TemplateUID binds the pod to a template from the start. When empty, the
	// template of the first accepted apply is remembered.
	TemplateUID string

	// ListenAddress serves the API with TLS, HealthAddress health and metrics
	// without.
	ListenAddress string
	HealthAddress string
	// CertDir holds tls.crt, tls.key and ca.crt of the agent's role.
	CertDir string

	// PreviousTrust is how long a replaced ca.crt stays valid.
	PreviousTrust time.Duration

	// HAProxyBinary is only asked for the reason of a refusal.
	HAProxyBinary string
	// MinReloadInterval is the least time between two reloads. The reload of an
	// apply that comes earlier is scheduled for its end.
	MinReloadInterval time.Duration
	// MaxOldWorkers is the most old workers that a reload may leave; zero means
	// the default.
	MaxOldWorkers int
	// Version is the agent's own, for its state.
	Version string
	// Registry takes the agent's metrics.
	Registry *prometheus.Registry
}

// maxReloadInterval is the longest that a reload may be put off.
const maxReloadInterval = time.Minute

func (c *Config) validate() error {
	if c.MaxOldWorkers == 0 {
		c.MaxOldWorkers = defaultMaxOldWorkers
	}
	switch {
	case c.PodUID == "":
		return errors.New("the pod's UID is not set")
	case c.PodName == "":
		return errors.New("the pod's name is not set")
	case c.MinReloadInterval < 0 || c.MinReloadInterval > maxReloadInterval:
		return fmt.Errorf("minimum reload interval %s is not between 0 and %s", c.MinReloadInterval, maxReloadInterval)
	case c.MaxOldWorkers < 1 || c.MaxOldWorkers > mostOldWorkers:
		return fmt.Errorf("limit of %d old workers is not between 1 and %d", c.MaxOldWorkers, mostOldWorkers)
	case c.Registry == nil:
		return errors.New("no registry for metrics")
	}
	for _, address := range []string{c.ListenAddress, c.HealthAddress} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("listen address: %w", err)
		}
	}
	return nil
}
