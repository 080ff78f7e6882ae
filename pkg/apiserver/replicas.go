package apiserver

import (
	"fmt"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/pkg/apiserver/active"
	"github.com/holdfast-project/holdfast/pkg/viewfeed"
)

// newReplica returns nil where there is one replica.
func (o *Options) newReplica(cluster *restclient.Config, views *viewfeed.Views, feed feed, reg prometheus.Registerer) (*active.Replica, error) {
	if !o.Active.Enabled() {
		return nil, nil
	}
	// A client of its own: renewals must not queue behind the reads of the first
	// round, and one that hangs must end in time for another try.
	config := restclient.CopyConfig(cluster)
	config.Timeout = o.Active.RenewDeadline
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the Lease: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding a name for this replica: %w", err)
	}
	return active.New(active.Config{
		Settings: o.Active,
		HostName: host,
		Leases:   client.CoordinationV1().Leases(o.Active.Namespace),
		Slices:   client.DiscoveryV1().EndpointSlices(o.Active.Namespace),
		Views:    views,
		Ready:    feed.Ready,
		Lag:      o.ShutdownDelay,
		Metrics:  active.NewMetrics(reg),
	})
}

// askToDialAnew ends connections, after their open requests, while this replica
// is not the one that clients are led to. Where requests go through the Service's
// address, a kept connection would bring them here for good.
func askToDialAnew(config *genericapiserver.Config, replica *active.Replica) {
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		handler := build(api, c)
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if replica.Leaving() {
				// In HTTP/2 the server turns this into a GOAWAY.
				w.Header().Set("Connection", "close")
			}
			handler.ServeHTTP(w, req)
		})
	}
}
