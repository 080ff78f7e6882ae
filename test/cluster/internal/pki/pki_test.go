package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

var testAddresses = Addresses{APIServer: "10.96.0.1", Node: "10.244.0.1", NodeName: "devnode", HostPort: 4711}

func TestCertificatesAreTrustedWhereTheyShouldBe(t *testing.T) {
	dir := t.TempDir()
	if err := Generate(dir, filepath.Join(dir, "host"), testAddresses); err != nil {
		t.Fatal(err)
	}
	files := In(dir)
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	tests := []struct {
		name      string
		pair      Pair
		authority string
		host      string
		usage     x509.ExtKeyUsage
		trusted   bool
	}{
		{name: "kube-apiserver by its address inside", pair: files.APIServer, authority: files.ClusterCA, host: "10.96.0.1", usage: server, trusted: true},
		{name: "kube-apiserver through the host's forwarder", pair: files.APIServer, authority: files.ClusterCA, host: "127.0.0.1", usage: server, trusted: true},
		{name: "kube-apiserver by its Service name", pair: files.APIServer, authority: files.ClusterCA, host: "kubernetes.default.svc", usage: server, trusted: true},
		{name: "kube-apiserver by a foreign name is not trusted", pair: files.APIServer, authority: files.ClusterCA, host: "example.com", usage: server},
		{name: "the kubelet's port", pair: files.Kubelet, authority: files.ClusterCA, host: "10.244.0.1", usage: server, trusted: true},
		{name: "kube-apiserver as a client of the kubelet", pair: files.KubeletClient, authority: files.ClusterCA, usage: client, trusted: true},
		{name: "a client certificate does not serve", pair: files.KubeletClient, authority: files.ClusterCA, usage: server},
		{name: "the front proxy by its own authority", pair: files.FrontProxy, authority: files.FrontProxyCA, usage: client, trusted: true},
		{name: "the front proxy is no user of the cluster", pair: files.FrontProxy, authority: files.ClusterCA, usage: client},
		{name: "a user of the cluster is no front proxy", pair: files.KubeletClient, authority: files.FrontProxyCA, usage: client},
		{name: "a user of the cluster is no client of etcd", pair: files.KubeletClient, authority: files.EtcdCA, usage: client},
		{name: "kube-apiserver as a client of etcd", pair: files.EtcdClient, authority: files.EtcdCA, usage: client, trusted: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tls.LoadX509KeyPair(tc.pair.CertFile, tc.pair.KeyFile); err != nil {
				t.Fatalf("certificate and key do not belong together: %v", err)
			}
			roots := x509.NewCertPool()
			roots.AddCert(readCertificate(t, tc.authority))
			_, err := readCertificate(t, tc.pair.CertFile).Verify(x509.VerifyOptions{
				Roots: roots, DNSName: tc.host, KeyUsages: []x509.ExtKeyUsage{tc.usage},
			})
			if trusted := err == nil; trusted != tc.trusted {
				t.Errorf("trusted: %v (%v), want %v", trusted, err, tc.trusted)
			}
		})
	}
}

func TestKubeconfigsNameServerAndUser(t *testing.T) {
	dir := t.TempDir()
	host := filepath.Join(dir, "host")
	if err := Generate(dir, host, testAddresses); err != nil {
		t.Fatal(err)
	}
	type identity struct {
		Server, User string
		Groups       []string
	}
	tests := []struct {
		name, file string
		want       identity
	}{
		{"the administrator outside", host, identity{"https://127.0.0.1:4711", "devcluster-admin", []string{"system:masters"}}},
		{"the node", In(dir).Node, identity{"https://10.96.0.1", "system:node:devnode", []string{"system:nodes"}}},
		{"the scheduler", In(dir).Scheduler, identity{"https://10.96.0.1", "system:kube-scheduler", nil}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			config, err := clientcmd.BuildConfigFromFlags("", tc.file)
			if err != nil {
				t.Fatal(err)
			}
			subject := decode(t, config.CertData).Subject
			got := identity{config.Host, subject.CommonName, subject.Organization}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kubeconfig (-want +got):\n%s", diff)
			}
		})
	}
}

func readCertificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

func decode(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM block")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
