package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/test/owncluster"
)

const (
	namespace = "conformance"
	// address is free: the cluster's network is this test's own.
	address    = "127.0.0.1"
	port       = "16443"
	readyLimit = 2 * time.Minute
	// valueLabel is what the script changes and selects by.
	valueLabel = "value"
)

// subject is a resource that the script is put to.
type subject struct {
	name, group, resource, kind string
	host                        string
	client                      *http.Client
	// write creates or changes an object, and remove deletes it. They return
	// when the resource shows it.
	write  func(ctx context.Context, name, value string) error
	remove func(ctx context.Context, name string) error
}

func (s *subject) root() string { return "/apis/" + s.group }

func (s *subject) path() string {
	return s.root() + "/namespaces/" + namespace + "/" + s.resource
}

// builtin is Leases of kube-apiserver.
func builtin(t *testing.T, config *rest.Config) *subject {
	t.Helper()
	core := kubernetes.NewForConfigOrDie(config)
	leases := core.CoordinationV1().Leases(namespace)
	return &subject{
		name: "built-in", group: "coordination.k8s.io/v1", resource: "leases", kind: "Lease",
		host: config.Host, client: httpClient(t, config),
		write: func(ctx context.Context, name, value string) error {
			found, err := leases.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: objectMeta(name, value)}, metav1.CreateOptions{})
				return err
			}
			if err != nil {
				return err
			}
			found.Labels[valueLabel] = value
			_, err = leases.Update(ctx, found, metav1.UpdateOptions{})
			return err
		},
		remove: func(ctx context.Context, name string) error { return leases.Delete(ctx, name, metav1.DeleteOptions{}) },
	}
}

func objectMeta(name, value string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{valueLabel: value}}
}

func httpClient(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// ours is RetainedCheckpoints of our server, written through what is stored.
func ours(t *testing.T, config *rest.Config) *subject {
	t.Helper()
	startServer(t)
	direct := rest.CopyConfig(config)
	direct.Host = "https://" + address + ":" + port
	direct.Insecure, direct.CAData, direct.CAFile = true, nil, ""
	s := &subject{
		name: "ours", group: "retained.haproxy-haptic.org/v1alpha1", resource: "retainedcheckpoints", kind: "RetainedCheckpoint",
		host: direct.Host, client: httpClient(t, direct),
	}
	stored := versioned.NewForConfigOrDie(config).HapticV1alpha1().HAProxyCfgs(namespace)
	shown := versioned.NewForConfigOrDie(direct).RetainedV1alpha1().RetainedCheckpoints(namespace)
	s.write = func(ctx context.Context, name, value string) error {
		found, err := stored.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			cfg := &v1alpha1.HAProxyCfg{
				ObjectMeta: objectMeta(name, value),
				Spec:       v1alpha1.HAProxyCfgSpec{Path: "haproxy.cfg", Content: "global\n", Checksum: "0123456789abcdef"},
			}
			cfg.Labels[v1alpha1.LabelRetainedFor] = "nobody"
			_, err = stored.Create(ctx, cfg, metav1.CreateOptions{})
		case err == nil:
			found.Labels[valueLabel] = value
			_, err = stored.Update(ctx, found, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
		return eventually(ctx, func(ctx context.Context) bool {
			v, err := shown.Get(ctx, name, metav1.GetOptions{})
			return err == nil && v.Labels[valueLabel] == value
		})
	}
	s.remove = func(ctx context.Context, name string) error {
		if err := stored.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return eventually(ctx, func(ctx context.Context) bool {
			_, err := shown.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	// Requests past the aggregator need the cluster's client CA, which the
	// library reads a moment after it is ready; the aggregator's comes before.
	if err := eventually(t.Context(), func(ctx context.Context) bool {
		ready, err := s.ask(ctx, http.MethodGet, "/readyz", "", nil)
		if err != nil || ready.code != http.StatusOK {
			return false
		}
		known, err := s.ask(ctx, http.MethodGet, s.root(), "", nil)
		return err == nil && known.code != http.StatusUnauthorized
	}); err != nil {
		t.Fatalf("our server is not ready: %v", err)
	}
	return s
}

// startServer runs the binary until the test is over.
func startServer(t *testing.T) {
	t.Helper()
	cmd := exec.Command(owncluster.Binary("holdfast-apiserver"),
		"--kubeconfig="+os.Getenv("KUBECONFIG"), "--bind-address="+address, "--secure-port="+port,
		"--namespaces="+namespace, "--shutdown-delay-duration=0s")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		if err != nil || t.Failed() {
			t.Logf("our server ended with %v; its log:\n%.4000s", err, log.String())
		}
	})
}

// eventually polls until something holds.
func eventually(ctx context.Context, holds func(ctx context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", readyLimit, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

// answer is a whole answer.
type answer struct {
	code        int
	contentType string
	body        []byte
}

func (s *subject) ask(ctx context.Context, method, path, accept string, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.host+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("Content-Type"), read}, err
}
