package controlplane

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/holdfast-project/holdfast/test/cluster/internal/pki"
	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

const (
	etcdClients = "https://127.0.0.1:2379"
	etcdPeers   = "http://127.0.0.1:2380"
)

// RunEtcd runs etcd until the context ends. Clients need a certificate: pods
// share the loopback address, and must not read Secrets around the API.
func RunEtcd(ctx context.Context, dir state.Dir) error {
	files := pki.In(dir.Path("pki"))
	cfg := embed.NewConfig()
	cfg.Name = "devcluster"
	cfg.Dir = dir.Path("etcd")
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	clients, err := url.Parse(etcdClients)
	if err != nil {
		return fmt.Errorf("reading etcd address: %w", err)
	}
	peers, err := url.Parse(etcdPeers)
	if err != nil {
		return fmt.Errorf("reading etcd address: %w", err)
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clients}, []url.URL{*clients}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peers}, []url.URL{*peers}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile:       files.Etcd.CertFile,
		KeyFile:        files.Etcd.KeyFile,
		TrustedCAFile:  files.EtcdCA,
		ClientCertAuth: true,
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer server.Close()
	select {
	case err := <-server.Err():
		return fmt.Errorf("running etcd: %w", err)
	case <-ctx.Done():
		return nil
	}
}
