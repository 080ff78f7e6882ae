package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/mtls"
	"github.com/holdfast-project/holdfast/test/agenttest"
)

const (
	// hapticNamespace is where the audit-only overlay expects HAPTIC.
	hapticNamespace = "haptic"
	// clusterLimit bounds the start of a cluster, and its end.
	clusterLimit = 2 * time.Minute
)

// hapticDefinitions are custom resource definitions in the shape of HAPTIC's.
const hapticDefinitions = "testdata/haptic/definitions.yaml"

// besideHAPTIC makes the test run on a cluster of its own, in which an
// installation of HAPTIC has its custom resource definitions. How says how kubectl
// brings them there.
func besideHAPTIC(t *testing.T, how ...string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "holdfast-it-")
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(folder, "c")
	t.Setenv("HOLDFAST_DEVCLUSTER", state)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
		defer cancel()
		out, err := cluster(ctx, "down").CombinedOutput()
		if err = errors.Join(err, os.RemoveAll(folder), nothingLeft(state)); err != nil {
			t.Errorf("stopping the cluster: %v: %s", err, out)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), clusterLimit)
	defer cancel()
	if out, err := cluster(ctx, "up", "--bin", os.Getenv("HOLDFAST_BIN"), "--require", "haproxy").CombinedOutput(); err != nil {
		t.Fatalf("starting a cluster: %v: %s", err, out)
	}
	kube(t, append(how, "-f", hapticDefinitions)...)
	kube(t, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
}

// written is a folder's overlay in a file, but for what issues certificates: no
// cluster of a test has that.
func written(t *testing.T, folder string) (file string, objects int) {
	t.Helper()
	known := slices.DeleteFunc(build(t, folder), foreign.MatchString)
	file = filepath.Join(t.TempDir(), "overlay.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(known, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, len(known)
}

// kustomized is a folder with a kustomization over the manifests, whose names
// are relative to them.
func kustomized(t *testing.T, resources, components []string) string {
	t.Helper()
	folder := t.TempDir()
	manifests, err := filepath.Abs("../../manifests")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(folder, manifests)
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	for key, names := range map[string][]string{"resources": resources, "components": components} {
		for i, name := range names {
			if i == 0 {
				text += key + ":\n"
			}
			text += "- " + filepath.Join(relative, name) + "\n"
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// giveCertificates makes the Secrets that cert-manager would, by their names,
// each with a certificate for the host named.
func giveCertificates(t *testing.T, namespace string, hosts map[string]string) {
	t.Helper()
	authority := agenttest.NewAuthority(t)
	kube(t, "create", "namespace", namespace)
	for secret, host := range hosts {
		dir := filepath.Join(t.TempDir(), secret)
		authority.Issue(t, dir, host)
		args := []string{"-n", namespace, "create", "secret", "generic", secret}
		for _, name := range []string{mtls.CertFile, mtls.KeyFile, mtls.CAFile} {
			args = append(args, "--from-file="+filepath.Join(dir, name))
		}
		kube(t, args...)
	}
}

// trustServing tells the aggregator whom the API server's certificate is from.
func trustServing(t *testing.T) {
	t.Helper()
	bundle := kube(t, "-n", system, "get", "secret", "holdfast-apiserver-serving", "-o", `jsonpath={.data.ca\.crt}`)
	kube(t, "patch", "apiservice", "v1alpha1.retained.haproxy-haptic.org", "--type=merge",
		"-p", fmt.Sprintf(`{"spec":{"caBundle":%q}}`, bundle))
}
