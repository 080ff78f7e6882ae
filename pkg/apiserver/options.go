package apiserver

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	netutils "k8s.io/utils/net"

	"github.com/holdfast-project/holdfast/pkg/apis/retained"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/apiserver/active"
)

const (
	defaultPort = 8443
	// defaultShutdownDelay covers the time in which a removed endpoint still
	// gets requests.
	defaultShutdownDelay = 3 * time.Second
	// watchTerminationGracePeriod ends open watches at shutdown. With zero the
	// server would wait a minute for each of them.
	watchTerminationGracePeriod = 5 * time.Second
	// maxStreams suits a client that is one proxy with everybody's requests.
	maxStreams = 1000
	// clientQPS and clientBurst bound the live reads of the first round.
	clientQPS, clientBurst = 200, 400
)

// discoveryPaths say what is served, which never changes. Whoever is known may read
// them without a question to the cluster: discovery of all groups is one operation
// for many clients, so while the cluster cannot be asked, ours must not fail it.
var discoveryPaths = []string{"/apis", "/apis/" + retained.GroupName, "/apis/" + views.SchemeGroupVersion.String()}

// Options are everything that flags can set.
type Options struct {
	SecureServing  *genericoptions.SecureServingOptionsWithLoopback
	Authentication *genericoptions.DelegatingAuthenticationOptions
	Authorization  *genericoptions.DelegatingAuthorizationOptions
	Audit          *genericoptions.AuditOptions
	Features       *genericoptions.FeatureOptions

	// Kubeconfig leads to the cluster whose objects are viewed. Empty means the
	// cluster this process runs in.
	Kubeconfig string
	// Namespaces that are served. Empty means all, and needs a ClusterRole.
	Namespaces []string
	// WithoutSecrets never reads a Secret. Certificates are then Unknown.
	WithoutSecrets bool
	// Active says how several replicas find out which of them clients reach.
	Active active.Settings
	// ShutdownDelay is how long requests are still accepted after SIGTERM.
	ShutdownDelay time.Duration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	serving := genericoptions.NewSecureServingOptions()
	serving.BindPort = defaultPort
	serving.HTTP2MaxStreamsPerConnection = maxStreams
	serving.MinTLSVersion = "VersionTLS13"
	// Without certificate files, one is made in memory: the library's default
	// would write into the working directory, which is read-only in a container.
	serving.ServerCert.CertDirectory = ""

	features := genericoptions.NewFeatureOptions()
	// It needs to read the cluster's flow schemas; requests are bounded by the
	// maximum in flight, and the aggregator in front has it.
	features.EnablePriorityAndFairness = false
	features.EnableProfiling = false

	return &Options{
		SecureServing:  serving.WithLoopback(),
		Authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		Authorization:  genericoptions.NewDelegatingAuthorizationOptions().WithAlwaysAllowPaths(discoveryPaths...),
		Audit:          genericoptions.NewAuditOptions(),
		Features:       features,
		Active:         active.NewSettings(),
		ShutdownDelay:  defaultShutdownDelay,
	}
}

// AddFlags adds a flag for every option.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.SecureServing.AddFlags(fs)
	o.Authentication.AddFlags(fs)
	o.Authorization.AddFlags(fs)
	o.Audit.AddFlags(fs)
	fs.BoolVar(&o.Features.EnableProfiling, "profiling", o.Features.EnableProfiling,
		"Serve profiles under /debug/pprof/ to those who may read that path.")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Kubeconfig of the cluster whose objects are viewed. Empty means the cluster this process runs in. "+
			"Also used for authentication and authorization unless those have a kubeconfig of their own.")
	fs.StringSliceVar(&o.Namespaces, "namespaces", o.Namespaces,
		"Namespaces to serve, comma separated. Empty means all, and needs cluster-wide read rights.")
	fs.BoolVar(&o.WithoutSecrets, "without-secrets", o.WithoutSecrets,
		"Never read a Secret. Certificates and CA bundles are then Unknown, and the rest is judged.")
	o.Active.AddFlags(fs)
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay,
		"How long requests are still accepted after a termination signal, while readiness is already gone.")
}

// Complete fills in what follows from other options.
func (o *Options) Complete() error {
	if o.Kubeconfig != "" {
		if o.Authentication.RemoteKubeConfigFile == "" {
			o.Authentication.RemoteKubeConfigFile = o.Kubeconfig
		}
		if o.Authorization.RemoteKubeConfigFile == "" {
			o.Authorization.RemoteKubeConfigFile = o.Kubeconfig
		}
	}
	if o.Active.Enabled() && o.Active.Address == "" {
		o.Active.Address = o.SecureServing.BindAddress.String()
	}
	err := o.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{netutils.ParseIPSloppy("127.0.0.1")})
	if err != nil {
		return fmt.Errorf("making a serving certificate: %w", err)
	}
	return nil
}

var errNilOptions = errors.New("authentication, authorization and serving options are required: without them everybody would be let in")

// Validate returns every mistake at once.
func (o *Options) Validate() error {
	if o.SecureServing == nil || o.Authentication == nil || o.Authorization == nil {
		return errNilOptions
	}
	var errs []error
	errs = append(errs, o.SecureServing.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, o.Active.Validate()...)
	for _, namespace := range o.Namespaces {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, fmt.Errorf("--namespaces: %q: %s", namespace, problem))
		}
	}
	if o.ShutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay-duration may not be negative: %s", o.ShutdownDelay))
	}
	return utilerrors.NewAggregate(errs)
}

// clientConfig leads to the cluster whose objects are viewed.
func (o *Options) clientConfig() (*restclient.Config, error) {
	load := restclient.InClusterConfig
	if o.Kubeconfig != "" {
		load = func() (*restclient.Config, error) { return clientcmd.BuildConfigFromFlags("", o.Kubeconfig) }
	}
	config, err := load()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.UserAgent = "holdfast-apiserver"
	return config, nil
}
