package controller

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"
)

// Defaults of the flags. The ports are those of the project's manifests.
const (
	defaultAgentPort  = 9444
	defaultHealthPort = "8081"
	defaultCertDir    = "/etc/holdfast/tls"
	defaultHAProxy    = "haproxy"
)

// Options are the flags of a controller.
type Options struct {
	Kubeconfig    string
	Namespace     string
	Template      string
	Identity      string
	AgentPort     int
	AgentCertDir  string
	HAProxy       string
	GateDir       string
	HealthAddress string
}

// AddFlags defines the flags. What the downward API puts into the environment
// is their default.
func (o *Options) AddFlags(flags *pflag.FlagSet, env func(string) string) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty uses the pod's service account")
	flags.StringVar(&o.Namespace, "namespace", env("POD_NAMESPACE"), "namespace of the template and of everything stored for it ($POD_NAMESPACE)")
	flags.StringVar(&o.Template, "template", "", "name of the HAProxyTemplateConfig to serve")
	flags.StringVar(&o.Identity, "identity", env("POD_NAME"), "name of this process in leader election; a suffix makes it unique ($POD_NAME, else the host name)")
	flags.IntVar(&o.AgentPort, "agent-port", defaultAgentPort, "port of the agents")
	flags.StringVar(&o.AgentCertDir, "agent-cert-dir", defaultCertDir, "folder with tls.crt, tls.key and ca.crt of the controller's role, re-read while running")
	flags.StringVar(&o.HAProxy, "haproxy", defaultHAProxy, "HAProxy binary that checks outputs; it should be the version the proxies run")
	flags.StringVar(&o.GateDir, "gate-dir", "", "folder in which outputs are laid out for their check, keys included; empty uses the system's for temporary files")
	flags.StringVar(&o.HealthAddress, "health-address", net.JoinHostPort(env("POD_IP"), defaultHealthPort), "address of /healthz, /readyz, /livez and /metrics ($POD_IP)")
}

// Validate reports every problem of the flags at once.
func (o *Options) Validate() error {
	var problems []error
	if o.Namespace == "" {
		problems = append(problems, errors.New("--namespace must name the template's namespace"))
	}
	if o.Template == "" {
		problems = append(problems, errors.New("--template must name a HAProxyTemplateConfig"))
	}
	if o.AgentPort < 1 || o.AgentPort > 65535 {
		problems = append(problems, fmt.Errorf("--agent-port must be a port, is %d", o.AgentPort))
	}
	if _, _, err := net.SplitHostPort(o.HealthAddress); err != nil {
		problems = append(problems, fmt.Errorf("--health-address: %w", err))
	}
	return errors.Join(problems...)
}

// identity is the name in leader election before it is made unique.
func (o *Options) identity() (string, error) {
	host, err := os.Hostname()
	if name := cmp.Or(o.Identity, host); name != "" {
		return name, nil
	}
	return "", fmt.Errorf("--identity is empty and the host has no name: %w", err)
}
