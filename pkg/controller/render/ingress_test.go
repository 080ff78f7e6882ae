package render

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// ingressTemplate is the library that users start from.
const ingressTemplate = "../../../manifests/examples/ingress.yaml"

// readObjects reads a file of many documents into a snapshot of what the
// template watches.
func readObjects(t *testing.T, text []byte, template *v1alpha1.HAProxyTemplateConfig) Snapshot {
	t.Helper()
	plural := map[string]string{"Ingress": "ingresses", "Service": "services", "EndpointSlice": "endpointslices", "Secret": "secrets", "ConfigMap": "configmaps"}
	snapshot := Snapshot{}
	for name, resource := range template.Spec.WatchedResources {
		snapshot[name] = Kind{IndexBy: resource.IndexBy}
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return snapshot
		} else if err != nil {
			t.Fatal(err)
		}
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := o.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		for name, resource := range template.Spec.WatchedResources {
			if resource.APIVersion == o.GetAPIVersion() && resource.Resources == plural[o.GetKind()] {
				kind := snapshot[name]
				kind.Objects = append(kind.Objects, o)
				snapshot[name] = kind
			}
		}
	}
}

// keyPair makes a certificate for a host, with its key.
func keyPair(t *testing.T, host string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, body, body, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey})
}

func tlsSecret(namespace, name string, certificate, key []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"data": map[string]any{
			"tls.crt": base64.StdEncoding.EncodeToString(certificate), "tls.key": base64.StdEncoding.EncodeToString(key),
		},
	}}
}

// ingressSnapshot is the sample cluster with fresh certificates; the one of
// broken-tls has the key of another.
func ingressSnapshot(t *testing.T, template *v1alpha1.HAProxyTemplateConfig) Snapshot {
	t.Helper()
	text, err := os.ReadFile("testdata/ingress/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	snapshot := readObjects(t, text, template)
	shopCert, shopKey := keyPair(t, "shop.example.org")
	blogCert, blogKey := keyPair(t, "*.blog.example.org")
	kind := snapshot["certificates"]
	kind.Objects = append(kind.Objects, tlsSecret("shop", "shop-tls", shopCert, shopKey),
		tlsSecret("blog", "blog-tls", blogCert, blogKey), tlsSecret("blog", "broken-tls", shopCert, blogKey))
	snapshot["certificates"] = kind
	return snapshot
}

func renderIngress(t *testing.T) *checkpoint.Output {
	t.Helper()
	template := loadTemplate(t, ingressTemplate)
	out, err := renderOnce(t, template, ingressSnapshot(t, template))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestIngressLibraryRendersAsStored(t *testing.T) {
	out := renderIngress(t)
	files := map[string][]byte{"haproxy.cfg": out.Configuration}
	var certificates []string
	for _, a := range out.Artifacts {
		if a.Family == checkpoint.Certificate {
			certificates = append(certificates, a.RuntimePath)
			continue
		}
		files[a.RuntimePath] = a.Content
	}
	if diff := cmp.Diff([]string{"ssl/blog_blog-tls.pem", "ssl/shop_shop-tls.pem"}, certificates); diff != "" {
		t.Errorf("certificates (-want +got):\n%s", diff)
	}
	checkStored(t, "ingress", files)
}

func TestIngressLibraryGivesEqualBytesInAnyOrder(t *testing.T) {
	template := loadTemplate(t, ingressTemplate)
	snapshot := ingressSnapshot(t, template)
	first, err := renderOnce(t, template, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		for _, kind := range snapshot {
			mathrand.Shuffle(len(kind.Objects), func(a, b int) { kind.Objects[a], kind.Objects[b] = kind.Objects[b], kind.Objects[a] })
		}
		again, err := renderOnce(t, template, snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("render %d differs (-first +again):\n%s", i, diff)
		}
	}
}

// TestIngressLibraryIsWhatItsDefinitionTakes creates it at an API server that
// judges as the real one does, with the definition of the manifests.
func TestIngressLibraryIsWhatItsDefinitionTakes(t *testing.T) {
	server := fakeapi.New(fakeapi.Options{})
	client := versioned.NewForConfigOrDie(server.Config(fakeapi.Admin)).HapticV1alpha1().HAProxyTemplateConfigs("edge")
	template := loadTemplate(t, ingressTemplate)
	if _, err := client.Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	template.Name = "other"
	template.Spec.HTTPResources = map[string]v1alpha1.HTTPResource{"x": {URL: "file:///etc/passwd"}}
	if _, err := client.Create(t.Context(), template, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("Create() error = %v, want one about the URL", err)
	}
}

func TestIngressLibraryPassesHAProxy(t *testing.T) {
	checkWithHAProxy(t, renderIngress(t))
}

func TestIngressLibraryRendersAnEmptyCluster(t *testing.T) {
	template := loadTemplate(t, ingressTemplate)
	out, err := renderOnce(t, template, readObjects(t, nil, template))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out.Configuration), "8443") {
		t.Error("a port for TLS is bound without a certificate")
	}
	checkWithHAProxy(t, out)
}

func TestIngressLibraryUsesItsDefaultCertificate(t *testing.T) {
	template := loadTemplate(t, ingressTemplate)
	raw := strings.Replace(string(template.Spec.TemplatingSettings.ExtraContext.Raw), `"defaultCertificate":null`,
		`"defaultCertificate":{"namespace":"blog","name":"blog-tls"}`, 1)
	template.Spec.TemplatingSettings.ExtraContext.Raw = []byte(raw)
	out, err := renderOnce(t, template, ingressSnapshot(t, template))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out.Configuration), "ssl crt ssl/_default.pem crt ssl/ ") {
		t.Errorf("the default certificate is not the first:\n%s", out.Configuration)
	}
	checkWithHAProxy(t, out)
	template.Spec.TemplatingSettings.ExtraContext.Raw = []byte(strings.Replace(raw, "blog-tls", "absent", 1))
	if _, err := renderOnce(t, template, ingressSnapshot(t, template)); err == nil || !strings.Contains(err.Error(), "Secret blog/absent holds no certificate with its key") {
		t.Errorf("Render() error = %v, want one that names the Secret", err)
	}
}

// TestAChangedEndpointChangesItsServersAlone is what lets it be a runtime
// operation on the pods.
func TestAChangedEndpointChangesItsServersAlone(t *testing.T) {
	template := loadTemplate(t, ingressTemplate)
	snapshot := ingressSnapshot(t, template)
	before, err := renderOnce(t, template, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range snapshot["endpoints"].Objects {
		if o.GetNamespace() == "shop" && o.GetName() == "api-a" {
			endpoints := []any{map[string]any{"addresses": []any{"10.244.0.10"}}}
			if err := unstructured.SetNestedSlice(o.Object, endpoints, "endpoints"); err != nil {
				t.Fatal(err)
			}
		}
	}
	after, err := renderOnce(t, template, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for name, backend := range after.Plan.Backends {
		if was := before.Plan.Backends[name]; was.RecordDigest != backend.RecordDigest {
			changed = append(changed, name)
			if was.BodyDigest != backend.BodyDigest || was.CommentsDigest != backend.CommentsDigest {
				t.Errorf("more than the servers of %s changed", name)
			}
		}
	}
	if diff := cmp.Diff([]string{"shop_api_8080"}, changed); diff != "" {
		t.Errorf("changed backends (-want +got):\n%s", diff)
	}
	for i, a := range after.Artifacts {
		if !bytes.Equal(a.Content, before.Artifacts[i].Content) {
			t.Errorf("%s changed", a.RuntimePath)
		}
	}
}
