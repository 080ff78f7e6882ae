package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FrontProxyName is the one name whose certificate may speak for users.
const FrontProxyName = "front-proxy-client"

// Addresses is what the certificates and kubeconfigs must name.
type Addresses struct {
	// APIServer is where kube-apiserver listens inside the namespace.
	APIServer string
	// Node is the node's own address and Name its name.
	Node, NodeName string
	// HostPort is the forwarder's port on 127.0.0.1.
	HostPort int
}

// Files names everything the components are started with.
type Files struct {
	ClusterCA, FrontProxyCA, EtcdCA    string
	APIServer, Kubelet, Etcd           Pair
	KubeletClient, FrontProxy          Pair
	EtcdClient                         Pair
	ServiceAccountKey                  string
	ServiceAccountPublic               string
	ControllerManager, Node, Scheduler string
}

// Generate makes everything below dir; the host's kubeconfig goes to hostConfig.
func Generate(dir, hostConfig string, at Addresses) error {
	cluster, err := NewAuthority(dir, "cluster-ca")
	if err != nil {
		return err
	}
	frontProxy, err := NewAuthority(dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	etcd, err := NewAuthority(dir, "etcd-ca")
	if err != nil {
		return err
	}
	servers := []struct {
		authority *Authority
		file      string
		subject   Subject
	}{
		{cluster, "apiserver", Subject{Name: "kube-apiserver", Hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"localhost", "127.0.0.1", at.APIServer, at.Node,
		}}},
		{cluster, "kubelet", Subject{Name: "system:node:" + at.NodeName, Groups: []string{"system:nodes"}, Hosts: []string{at.NodeName, at.Node}}},
		{cluster, "kubelet-client", Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}},
		{frontProxy, "front-proxy-client", Subject{Name: FrontProxyName}},
		{etcd, "etcd", Subject{Name: "etcd", Hosts: []string{"localhost", "127.0.0.1"}}},
		{etcd, "etcd-client", Subject{Name: "kube-apiserver"}},
	}
	for _, s := range servers {
		if _, err := s.authority.Issue(s.file, s.subject); err != nil {
			return err
		}
	}
	if err := serviceAccountKeys(dir); err != nil {
		return err
	}
	return kubeconfigs(cluster, dir, hostConfig, at)
}

// In answers the names Generate used, for the processes started later.
func In(dir string) Files {
	pair := func(name string) Pair {
		return Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	}
	return Files{
		ClusterCA:            filepath.Join(dir, "cluster-ca.crt"),
		FrontProxyCA:         filepath.Join(dir, "front-proxy-ca.crt"),
		EtcdCA:               filepath.Join(dir, "etcd-ca.crt"),
		APIServer:            pair("apiserver"),
		Kubelet:              pair("kubelet"),
		Etcd:                 pair("etcd"),
		KubeletClient:        pair("kubelet-client"),
		FrontProxy:           pair("front-proxy-client"),
		EtcdClient:           pair("etcd-client"),
		ServiceAccountKey:    filepath.Join(dir, "service-account.key"),
		ServiceAccountPublic: filepath.Join(dir, "service-account.pub"),
		ControllerManager:    filepath.Join(dir, "controller-manager.kubeconfig"),
		Node:                 filepath.Join(dir, "node.kubeconfig"),
		Scheduler:            filepath.Join(dir, "scheduler.kubeconfig"),
	}
}

func serviceAccountKeys(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("creating service account key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return fmt.Errorf("encoding service account key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding service account key: %w", err)
	}
	files := In(dir)
	if err := write(files.ServiceAccountKey, private); err != nil {
		return err
	}
	return write(files.ServiceAccountPublic, encode("PUBLIC KEY", der))
}

func kubeconfigs(cluster *Authority, dir, hostConfig string, at Addresses) error {
	inside := "https://" + at.APIServer
	host := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(at.HostPort))
	files := In(dir)
	users := []struct {
		path, server, file string
		subject            Subject
	}{
		{hostConfig, host, "admin", Subject{Name: "devcluster-admin", Groups: []string{"system:masters"}}},
		{filepath.Join(dir, "inside.kubeconfig"), inside, "inside-admin", Subject{Name: "devcluster-admin", Groups: []string{"system:masters"}}},
		{files.ControllerManager, inside, "controller-manager", Subject{Name: "system:kube-controller-manager"}},
		{files.Scheduler, inside, "scheduler", Subject{Name: "system:kube-scheduler"}},
		{files.Node, inside, "node", Subject{Name: "system:node:" + at.NodeName, Groups: []string{"system:nodes"}}},
	}
	for _, u := range users {
		pair, err := cluster.Issue(u.file, u.subject)
		if err != nil {
			return err
		}
		config := clientcmdapi.NewConfig()
		config.Clusters["devcluster"] = &clientcmdapi.Cluster{Server: u.server, CertificateAuthorityData: cluster.PEM()}
		config.AuthInfos["devcluster"] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
		config.Contexts["devcluster"] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: "devcluster"}
		config.CurrentContext = "devcluster"
		if err := clientcmd.WriteToFile(*config, u.path); err != nil {
			return fmt.Errorf("writing kubeconfig: %w", err)
		}
	}
	return nil
}
