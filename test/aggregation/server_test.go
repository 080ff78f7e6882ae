package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-project/holdfast/test/certificates"
	"github.com/holdfast-project/holdfast/test/owncluster"
)

const (
	// servedAt is a pod's address, and no pod has it.
	servedAt   = "10.244.77.7"
	servedPort = "6443"
)

// server is our binary behind the APIService of manifests/.
type server struct {
	*testing.T
	kubeconfig string
	authority  *certificates.Authority
	certs      *volume
	bundle     atomic.Pointer[x509.CertPool]
	process    *os.Process
	ended      chan struct{}
	log        *log
}

// serve starts the binary and returns when the aggregator calls it available. The
// kubeconfig is how it gets to the cluster; empty means as the test does.
func serve(t *testing.T, kubeconfig string) *server {
	t.Helper()
	if kubeconfig == "" {
		kubeconfig = os.Getenv("KUBECONFIG")
	}
	s := &server{T: t, kubeconfig: kubeconfig, authority: certificates.NewAuthority(t, "first"), log: &log{}}
	s.certs = newVolume(t, pair(s.authority, 1))
	kube(t, "apply", "--server-side", "-f", "../../manifests/base/apiserver/apiservice.yaml")
	s.trust(s.authority.PEM)
	leadTo(t, servedAt)
	s.start()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			said := s.log.String()
			t.Logf("the server's log ends:\n%s", said[max(len(said)-4000, 0):])
		}
	})
	eventually(t, "the group is available", settle, available(t, "True"))
	// What passes requests on hears of it a moment later.
	eventually(t, "there are answers", settle, func(ctx context.Context) error {
		got, err := aggregator(t, owncluster.Config(t)).get(ctx, rckpts)
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("%d %s", got.code, got.body)
		}
		return err
	})
	return s
}

// trust sets the bundle of the APIService.
func (s *server) trust(bundle []byte) {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": bundle}})
	if err != nil {
		s.Fatal(err)
	}
	kube(s.T, "patch", "apiservice", apiService, "--type=merge", "-p", string(patch))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	s.bundle.Store(pool)
}

// leadTo is what Kubernetes does for the pods of a Service.
func leadTo(t *testing.T, address string) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "holdfast-apiserver-process", Labels: map[string]string{discoveryv1.LabelServiceName: "holdfast-apiserver"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](6443), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	_, err := core(t).DiscoveryV1().EndpointSlices(system).Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// start starts the process and returns when it is ready.
func (s *server) start() {
	s.Helper()
	s.launch()
	eventually(s.T, "the server is ready", settle, func(ctx context.Context) error {
		got, err := s.direct().get(ctx, "/readyz")
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("%d %s", got.code, got.body)
		}
		return err
	})
}

func (s *server) launch() {
	s.Helper()
	cmd := exec.Command(owncluster.Binary("holdfast-apiserver"),
		"--kubeconfig="+s.kubeconfig, "--bind-address="+servedAt, "--secure-port="+servedPort, "--namespaces="+strings.Join(served, ","),
		"--tls-cert-file="+s.certs.path("tls.crt"), "--tls-private-key-file="+s.certs.path("tls.key"), "--shutdown-delay-duration=0s")
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.process, s.ended = cmd.Process, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // how it ended is for who waits to judge
	}(s.ended)
}

// kill ends the process as a lost node does: nobody is told.
func (s *server) kill() {
	s.Helper()
	s.signal(syscall.SIGKILL)
	<-s.ended
}

func (s *server) signal(sig syscall.Signal) {
	s.Helper()
	if err := s.process.Signal(sig); err != nil && s.running() {
		s.Error(err)
	}
}

func (s *server) running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// direct asks the process itself, by a connection of its own each time.
func (s *server) direct() client {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: s.authority.Pool(), ServerName: servingName, MinVersion: tls.VersionTLS13}}
	return client{&http.Client{Transport: transport, Timeout: 5 * time.Second}, "https://" + servedAt + ":" + servedPort}
}
