package apiserver

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	baseversion "k8s.io/component-base/version"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/viewfeed"
)

// useLibraryFeatures has the server library offer the features of its own release.
// It goes by the version that is stamped into the build, which is ours: read as one
// of Kubernetes, v0.1.0 has no streaming lists yet.
func useLibraryFeatures() error {
	library, err := version.ParseGeneric(baseversion.DefaultKubeBinaryVersion)
	if err == nil {
		err = utilfeature.DefaultMutableFeatureGate.SetEmulationVersion(library)
	}
	if err != nil {
		return fmt.Errorf("choosing the features of Kubernetes %s: %w", baseversion.DefaultKubeBinaryVersion, err)
	}
	return nil
}

// Run serves what the options describe until ctx ends.
func Run(ctx context.Context, o *Options) error {
	if err := useLibraryFeatures(); err != nil {
		return err
	}
	return run(ctx, o, legacyregistry.Registerer())
}

func run(ctx context.Context, o *Options, reg prometheus.Registerer) error {
	if err := o.Complete(); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	clientConfig, err := o.clientConfig()
	if err != nil {
		return err
	}
	core, err := kubernetes.NewForConfig(clientConfig)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	stored, err := versioned.NewForConfig(clientConfig)
	if err != nil {
		return fmt.Errorf("making a client for stored objects: %w", err)
	}

	schemaless, err := dynamic.NewForConfig(clientConfig)
	if err != nil {
		return fmt.Errorf("making a client without schema: %w", err)
	}

	registerRemaining(reg, servingCertificate{config.SecureServing.Cert.CurrentCertKeyContent, time.Now})
	metrics := viewfeed.NewMetrics(reg)
	caches := viewfeed.NewViews(time.Now(), metrics)
	feed := viewfeed.New(viewfeed.Config{
		Client:         viewfeed.ClusterClient(stored, core, schemaless),
		Namespaces:     o.Namespaces,
		WithoutSecrets: o.WithoutSecrets,
		Views:          caches,
		Metrics:        metrics,
	})
	replica, err := o.newReplica(clientConfig, caches, feed, reg)
	if err != nil {
		return err
	}
	server, err := newServer(config, caches, feed, replica)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
