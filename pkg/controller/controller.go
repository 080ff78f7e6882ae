package controller

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/generated/clientset/versioned/scheme"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/controller/httpsource"
	"github.com/holdfast-project/holdfast/pkg/controller/publish"
	"github.com/holdfast-project/holdfast/pkg/controller/recovery"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

// Limits of this process's own requests to the API server. The defaults of
// client-go would make a publication of many files wait for itself.
const (
	clientQPS   = 50
	clientBurst = 100
)

// eventSource names this program in events.
const eventSource = "holdfast-controller"

// Controller is the process. Its parts outlive terms and hold nothing of one.
type Controller struct {
	options  Options
	identity string

	kubernetes kubernetes.Interface
	haptic     versioned.Interface
	dynamic    dynamic.Interface
	discovery  discovery.DiscoveryInterfaceWithContext
	agents     Agents
	templates  templates
	events     eventRecorder
	gate       Gate

	publishClients  publish.Clients
	registry        *prometheus.Registry
	metrics         *Metrics
	electionMetrics *election.Metrics
	publishMetrics  *publish.Metrics
	recoveryMetrics *recovery.Metrics
	documentMetrics *httpsource.Metrics
	// documentTransport is Parts.Documents.
	documentTransport http.RoundTripper
	health            *health

	// inputs, documents and fleet are set before the first session.
	inputs    *render.Inputs
	documents *httpsource.Sources
	fleet     *fleet
	// changed is raised when the next render might differ, templateChanged when
	// the template did.
	changed         signal
	templateChanged signal
	// work is the running term's.
	work atomic.Pointer[work]

	mu       sync.Mutex
	template *v1alpha1.HAProxyTemplateConfig
}

// Agents are the agents of the fleet, until they are closed. The agent client
// is one.
type Agents interface {
	deploy.Agents
	Close()
}

// Gate judges outputs.
type Gate interface {
	Check(ctx context.Context, output *checkpoint.Output) (gate.Verdict, error)
}

// Parts are the world outside of a controller, which New makes from the flags.
type Parts struct {
	// Config is the way to the API server.
	Config *rest.Config
	Agents Agents
	Gate   Gate
	// Documents is how httpResources are fetched; nil takes the network.
	Documents http.RoundTripper
}

// New connects to the API server and reads the certificates for the agents. It
// sends no request.
func New(ctx context.Context, options Options, registry *prometheus.Registry) (*Controller, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	config, err := restConfig(options.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the way to the API server: %w", err)
	}
	agents, err := client.New(client.Config{CertDir: options.AgentCertDir})
	if err != nil {
		return nil, err
	}
	checks := gate.New(gate.Config{Binary: options.HAProxy, Dir: options.GateDir})
	checks.Sweep(ctx)
	return Assemble(options, Parts{Config: config, Agents: agents, Gate: checks}, registry)
}

// Assemble makes a controller from its parts. Of the options it uses those that
// say what to serve and as whom.
func Assemble(options Options, parts Parts, registry *prometheus.Registry) (*Controller, error) {
	name, err := options.identity()
	if err != nil {
		return nil, err
	}
	c := &Controller{
		options: options, identity: election.NewIdentity(name), agents: parts.Agents, gate: parts.Gate,
		registry: registry, metrics: NewMetrics(registry), electionMetrics: election.NewMetrics(registry),
		publishMetrics: publish.NewMetrics(registry), recoveryMetrics: recovery.NewMetrics(registry), health: newHealth(),
		documentMetrics: httpsource.NewMetrics(registry), documentTransport: parts.Documents,
		changed: newSignal(), templateChanged: newSignal(),
	}
	if err := c.connect(parts.Config); err != nil {
		return nil, err
	}
	return c, nil
}

// restConfig is the pod's own way to the API server unless a file says another.
func restConfig(kubeconfig string) (config *rest.Config, err error) {
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	return config, nil
}

func (c *Controller) connect(config *rest.Config) (err error) {
	if c.kubernetes, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if c.haptic, err = versioned.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	c.discovery = discovery.ToDiscoveryInterfaceWithContext(c.kubernetes.Discovery())
	c.templates = c.haptic.HapticV1alpha1().HAProxyTemplateConfigs(c.options.Namespace)
	c.publishClients = publish.NewClients(c.haptic, c.kubernetes, c.options.Namespace)
	return nil
}

// Run works and tells of itself until ctx ends, which is a graceful stop: the
// term is drained and the Lease released before it returns nil.
func (c *Controller) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	waitHealth, err := c.health.serve(life, c.options.HealthAddress, c.registry)
	if err != nil {
		return err
	}
	err = c.Work(ctx)
	end()
	if healthErr := waitHealth(); err == nil {
		err = healthErr
	}
	return err
}

// Work is Run without the health endpoints: it opens no listener.
func (c *Controller) Work(ctx context.Context) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "template", klog.KRef(c.options.Namespace, c.options.Template))
	ctx = klog.NewContext(ctx, logger)
	// Watches and events must outlive the drain.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	broadcaster := record.NewBroadcaster(record.WithContext(life))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.kubernetes.CoreV1().Events(c.options.Namespace)})
	c.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventSource})

	err := c.serve(ctx, life)
	c.health.setReady(false)
	broadcaster.Shutdown()
	c.agents.Close()
	end()
	if c.inputs != nil {
		c.inputs.Wait()
		c.documents.Wait()
	}
	return err
}

func (c *Controller) serve(ctx, life context.Context) error {
	if err := c.preflight(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before there was anything to do
		}
		return err
	}
	stopWatching, err := c.watch(ctx, life)
	defer stopWatching()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := c.readPods(); err != nil {
		return err
	}
	return c.follow(ctx)
}

// current is the template as it is now, or nil.
func (c *Controller) current() *v1alpha1.HAProxyTemplateConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.template
}

// duration of an optional setting; zero takes the default.
func duration(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}
