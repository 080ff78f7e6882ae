package acceptance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/agent/mtls"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/test/agenttest"
	"github.com/holdfast-project/holdfast/test/owncluster"
)

const (
	templateName = "edge"
	hostX        = "x.example"
	firstRelease = "v1"
	// bound is what ADR-0033 gives a new pod to become Ready.
	bound = 2 * time.Minute
	poll  = 50 * time.Millisecond
)

// stage is a namespace with two controllers, two proxies and one template.
type stage struct {
	t         *testing.T
	namespace string
	core      kubernetes.Interface
	haptic    versioned.Interface
	agents    *client.Client
	web       *http.Client
	pods      *podWatch
	source    *criticalSource
	template  *v1alpha1.HAProxyTemplateConfig
}

// newStage installs everything and returns when host X is served and the first
// checkpoint is promoted. Patches change the template before it is first read.
func newStage(t *testing.T, patches ...string) *stage {
	t.Helper()
	s := &stage{t: t, namespace: "acceptance-" + rand.String(6)}
	s.connect()
	s.createNamespace()
	s.issueCertificates()
	s.pods = watchPods(t, s.core, s.namespace)
	s.source = newCriticalSource(t)
	s.install(append([]string{s.source.patch()}, patches...))
	template, err := s.haptic.HapticV1alpha1().HAProxyTemplateConfigs(s.namespace).Get(t.Context(), templateName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.template = template
	began := time.Now()
	s.await("two controllers are ready", func(context.Context) error { return s.pods.allReady(controllerName, 2) })
	s.awaitRelease(firstRelease, 2)
	s.settle()
	note(t, "installed → every proxy serves and the checkpoint is promoted", time.Since(began))
	return s
}

func (s *stage) connect() {
	// Polling must not wait for a limit of the client.
	config := owncluster.Config(s.t)
	s.core = kubernetes.NewForConfigOrDie(rest.CopyConfig(config))
	s.haptic = versioned.NewForConfigOrDie(config)
}

func (s *stage) createNamespace() {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if _, err := s.core.CoreV1().Namespaces().Create(s.t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if s.t.Failed() {
			s.explain(ctx)
		}
		// Quick, so that what ends does not slow down what comes next.
		grace := int64(1)
		quick := metav1.DeleteOptions{GracePeriodSeconds: &grace}
		if err := s.core.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			s.t.Errorf("deleting the namespace: %v", err)
		}
		if err := s.core.CoreV1().Pods(s.namespace).DeleteCollection(ctx, quick, metav1.ListOptions{}); err != nil {
			s.t.Errorf("deleting the pods: %v", err)
		}
	})
}

// issueCertificates gives controller, agents and host X their certificates, and
// the test those of a controller, with which it reads the agents' state.
func (s *stage) issueCertificates() {
	authority, folder := agenttest.NewAuthority(s.t), s.t.TempDir()
	for secret, role := range map[string]string{
		"holdfast-controller-identity": api.ControllerName, "holdfast-agent-identity": api.AgentName, "web-tls": hostX,
	} {
		dir := filepath.Join(folder, secret)
		authority.Issue(s.t, dir, role)
		stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, Data: map[string][]byte{}}
		for _, file := range []string{mtls.CertFile, mtls.KeyFile, mtls.CAFile} {
			content, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				s.t.Fatal(err)
			}
			stored.Data[file] = content
		}
		if _, err := s.core.CoreV1().Secrets(s.namespace).Create(s.t.Context(), stored, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		if secret == "web-tls" {
			s.web = webClient(stored.Data[mtls.CAFile])
		}
	}
	agents, err := client.New(client.Config{CertDir: filepath.Join(folder, "holdfast-controller-identity")})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(agents.Close)
	s.agents = agents
}

// webClient asks for host X at any address, on a new connection each time.
func webClient(ca []byte) *http.Client {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: hostX}, DisableKeepAlives: true,
	}}
}

// install applies the overlay of testdata/fleet in this namespace.
func (s *stage) install(patches []string) {
	base, err := filepath.Abs("testdata/fleet")
	if err != nil {
		s.t.Fatal(err)
	}
	overlay := s.t.TempDir()
	// kustomize takes no absolute paths.
	base, err = filepath.Rel(overlay, base)
	if err != nil {
		s.t.Fatal(err)
	}
	text := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: %s\nresources: [%q]\n", s.namespace, base)
	for i, patch := range patches {
		if i == 0 {
			text += "patches:\n"
		}
		text += fmt.Sprintf("- target: {kind: HAProxyTemplateConfig}\n  patch: %q\n", patch)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, err := exec.CommandContext(s.t.Context(), "kubectl", "apply", "--server-side", "-k", overlay).CombinedOutput()
	if err != nil {
		s.t.Fatalf("applying the manifests: %v: %s", err, out)
	}
}

// await polls until check passes, within the record's bound, and fails with its
// last complaint.
func (s *stage) await(what string, check func(ctx context.Context) error) time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bound)
	defer cancel()
	began := time.Now()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var last error
	for {
		// The complaint of a call that ran into the end of the wait tells nothing.
		err := check(ctx)
		if err == nil {
			return time.Since(began)
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("%s: not within %s: %v", what, bound, last)
		case <-ticker.C:
		}
	}
}
