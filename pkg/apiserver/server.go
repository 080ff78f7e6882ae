package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/holdfast-project/holdfast/pkg/apis/retained"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/apiserver/active"
	"github.com/holdfast-project/holdfast/pkg/registry/deploymentintent"
	"github.com/holdfast-project/holdfast/pkg/registry/retainedcheckpoint"
	"github.com/holdfast-project/holdfast/pkg/viewfeed"
)

// feed keeps views up to date; pkg/viewfeed has the real one.
type feed interface {
	// Run works until ctx ends and returns when every goroutine is gone.
	Run(ctx context.Context)
	// Ready tells what the first round still waits for.
	Ready() error
	retainedcheckpoint.Content
}

// Server serves views and keeps them up to date.
type Server struct {
	generic *genericapiserver.GenericAPIServer
	views   *viewfeed.Views
	feed    feed
	// replica is nil where there is one.
	replica *active.Replica
}

// newServer installs the view group on a server that config describes.
func newServer(config *genericapiserver.Config, caches *viewfeed.Views, feed feed, replica *active.Replica) (*Server, error) {
	if replica != nil {
		askToDialAnew(config, replica)
	}
	generic, err := config.Complete(nil).New("holdfast-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("making the server: %w", err)
	}
	checkpoints := retainedcheckpoint.NewStorage(caches.Checkpoints, feed.Ready)
	group := genericapiserver.NewDefaultAPIGroupInfo(retained.GroupName, Scheme, runtime.NewParameterCodec(Scheme), Codecs)
	// The constructor makes codecs of its own, so ours are set afterwards.
	group.NegotiatedSerializer = withoutProtobuf{group.NegotiatedSerializer}
	group.VersionedResourcesStorageMap[views.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"retainedcheckpoints":        checkpoints,
		"retainedcheckpoints/config": retainedcheckpoint.NewConfigStorage(checkpoints, feed),
		"deploymentintents":          deploymentintent.NewStorage(caches.Intents, feed.Ready),
	}
	if err := generic.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing group %s: %w", retained.GroupName, err)
	}
	certificate := servingCertificate{config.SecureServing.Cert.CurrentCertKeyContent, time.Now}
	err = generic.AddReadyzChecks(
		healthz.NamedCheck("views", func(*http.Request) error { return feed.Ready() }),
		healthz.NamedCheck("serving-certificate", certificate.ready))
	if err != nil {
		return nil, fmt.Errorf("adding the readiness checks: %w", err)
	}
	if replica != nil {
		err := generic.AddPreShutdownHook("hand-over", func() error {
			replica.HandOver(context.Background())
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("adding the hand-over: %w", err)
		}
	}
	return &Server{generic: generic, views: caches, feed: feed, replica: replica}, nil
}

// Run serves until ctx ends, then lets open requests finish. Views are kept up
// to date until the last request is answered.
func (s *Server) Run(ctx context.Context) error {
	feedCtx, stopFeed := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { s.feed.Run(feedCtx) })
	if s.replica != nil {
		running.Go(func() { s.replica.Run(feedCtx) })
	}

	err := s.generic.PrepareRun().RunWithContext(ctx)
	stopFeed()
	running.Wait()
	s.views.Close()
	return err
}
