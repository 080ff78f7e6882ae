package server

import (
	"context"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"

	"github.com/holdfast-project/holdfast/pkg/agent/mtls"
)

// Defaults of the flags. The ports are those of the project's manifests.
const (
	defaultDir      = "/var/lib/holdfast"
	defaultCertDir  = "/etc/holdfast/tls"
	defaultPort     = "9444"
	defaultHealth   = "9445"
	defaultInterval = 2 * time.Second
)

// Options are the flags of a serving agent.
type Options struct {
	config Config
}

// AddFlags defines the flags. What the downward API puts into the environment
// is their default.
func (o *Options) AddFlags(flags *pflag.FlagSet, env func(string) string) {
	c, ip := &o.config, env("POD_IP")
	flags.StringVar(&c.Dir, "dir", defaultDir, "folder shared with HAProxy")
	flags.StringVar(&c.PodName, "pod-name", env("POD_NAME"), "name of this pod ($POD_NAME)")
	flags.StringVar(&c.PodUID, "pod-uid", env("POD_UID"), "UID of this pod, which every request must name ($POD_UID)")
	flags.StringVar(&c.TemplateUID, "template-uid", "",
		"UID of the template this pod belongs to; when empty, that of the first accepted apply is remembered")
	flags.StringVar(&c.ListenAddress, "listen", net.JoinHostPort(ip, defaultPort), "address of the API, TLS 1.3 with client certificates ($POD_IP)")
	flags.StringVar(&c.HealthAddress, "health-listen", net.JoinHostPort(ip, defaultHealth), "address of /healthz, /readyz and /metrics ($POD_IP)")
	flags.StringVar(&c.CertDir, "tls-dir", defaultCertDir, "folder with tls.crt, tls.key and ca.crt, re-read while running")
	flags.DurationVar(&c.PreviousTrust, "previous-trust", mtls.MaxPreviousTrust,
		"how long a replaced ca.crt stays valid beside the new one, at most 24h; 0 revokes it at once")
	flags.StringVar(&c.HAProxyBinary, "haproxy", "haproxy", "binary that is asked why it refuses a configuration, where the running version does not say")
	flags.DurationVar(&c.MinReloadInterval, "min-reload-interval", defaultInterval, "least time between two reloads, at most 1m; the reload of an apply that comes sooner is scheduled for its end")
	flags.IntVar(&c.MaxOldWorkers, "max-old-workers", defaultMaxOldWorkers,
		"most workers of earlier loads that a reload may leave; at the limit the connections of the oldest are closed first")
}

// RunWithOptions serves an agent with its own metrics until the context ends.
func RunWithOptions(ctx context.Context, options Options, version string) error {
	config := options.config
	config.Version = version
	config.Registry = prometheus.NewRegistry()
	config.Registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	server, err := New(config)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
