package integration

import (
	"context"
	"strings"
	"testing"
)

func TestAUserWithoutRightsIsRefused(t *testing.T) {
	for _, resource := range []string{"retainedcheckpoints", "deploymentintents"} {
		for _, verb := range [][]string{{"get", resource, "-n", fleet}, {"get", resource, "-A"}} {
			out, err := tryKube(t.Context(), append(verb, "--as=nobody-in-particular")...)
			if err == nil || !strings.Contains(err.Error(), "Forbidden") {
				t.Errorf("kubectl %s without rights: error %v, output %q, want Forbidden", strings.Join(verb, " "), err, out)
			}
		}
	}
}

func TestAViewerSeesTheViewsAndNoSecret(t *testing.T) {
	const viewer = "auditor"
	kube(t, "create", "clusterrolebinding", "it-auditor", "--clusterrole=retained-viewer", "--user="+viewer)
	defer kube(t, "delete", "clusterrolebinding", "it-auditor")

	eventually(t, "the binding took effect", func(ctx context.Context) error {
		_, err := tryKube(ctx, "get", "retainedcheckpoints", "-A", "--as="+viewer)
		return err
	})
	kube(t, "get", "deploymentintents", "-A", "--as="+viewer)
	forbidden := [][]string{
		{"get", "secrets", "-n", fleet},
		{"get", "haproxycfgs", "-n", fleet},
		{"get", "--raw", "/apis/retained.haproxy-haptic.org/v1alpha1/namespaces/" + fleet + "/retainedcheckpoints/" + mustNewest(t).Name + "/config"},
	}
	for _, args := range forbidden {
		out, err := tryKube(t.Context(), append(args, "--as="+viewer)...)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "forbidden") {
			t.Errorf("kubectl %s as a viewer: error %v, output %q, want Forbidden", strings.Join(args, " "), err, out)
		}
	}
}

// TestP6ForgedIdentityHeadersAreNobody: whoever reaches the pod past the aggregator
// and calls himself somebody is nobody, because only the front proxy's certificate
// lends these headers their meaning.
func TestP6ForgedIdentityHeadersAreNobody(t *testing.T) {
	address := kube(t, "-n", "holdfast-system", "get", "pods", "-l", "app.kubernetes.io/name=holdfast-apiserver", "-o", "jsonpath={.items[0].status.podIP}")
	for _, path := range []string{"/apis/retained.haproxy-haptic.org/v1alpha1/retainedcheckpoints", "/metrics"} {
		out, err := inside(t.Context(), "curl", "-ks", "-o", "/dev/null", "-w", "%{http_code}",
			"-H", "X-Remote-User: kubernetes-admin", "-H", "X-Remote-Group: system:masters", "https://"+address+":6443"+path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(strings.TrimSpace(out), "401") {
			t.Errorf("%s with forged headers: %s, want 401", path, out)
		}
	}
}

func TestViewsHoldNoKeyByte(t *testing.T) {
	certificate := artifactOf(t, mustNewest(t), "Certificate")
	key := kube(t, "-n", web, "get", "secret", "web-tls", "-o", `go-template={{index .data "tls.key" | base64decode}}`)
	body := strings.Join(strings.Split(key, "\n")[1:3], "")
	if len(body) < 60 {
		t.Fatalf("the demo's key is too short to search for: %d characters", len(body))
	}
	slice := body[10:50]
	stored := kube(t, "-n", fleet, "get", "secret", certificate.Object.Name, "-o", `go-template={{index .data "certificate" | base64decode}}`)
	if !strings.Contains(strings.ReplaceAll(stored, "\n", ""), slice) {
		t.Fatal("the stored certificate does not hold the key that the search is for")
	}
	everything := kube(t, "get", "retainedcheckpoints,deploymentintents", "-A", "-o", "yaml") +
		kube(t, "-n", fleet, "get", "events", "-o", "yaml") +
		kube(t, "-n", fleet, "logs", "deployment/holdfast-controller", "--all-pods=true") +
		kube(t, "-n", fleet, "logs", "deployment/proxy", "--all-pods=true", "-c", "agent") +
		kube(t, "-n", "holdfast-system", "logs", "deployment/holdfast-apiserver")
	if strings.Contains(strings.ReplaceAll(everything, "\n", ""), slice) {
		t.Error("a view, an event or a log holds bytes of a private key")
	}
}
