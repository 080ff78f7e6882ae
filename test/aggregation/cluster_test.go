package aggregation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

const (
	// system and edge are namespaces, as in manifests/.
	system, edge = "holdfast-system", "edge"
	apiService   = "v1alpha1.retained.haproxy-haptic.org"
	group        = "retained.haproxy-haptic.org"
	groupPath    = "/apis/" + group + "/v1alpha1"
	rckpts       = groupPath + "/namespaces/" + edge + "/retainedcheckpoints"

	// settle bounds what comes by itself.
	settle = time.Minute
	poll   = 50 * time.Millisecond
)

func core(t *testing.T) kubernetes.Interface {
	t.Helper()
	return kubernetes.NewForConfigOrDie(owncluster.Config(t))
}

// as is the same control plane as somebody with no rights but to be known.
func as(config *rest.Config, user string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return config
}

// tryKube runs kubectl and returns what it printed, both streams on an error.
func tryKube(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, owncluster.Binary("kubectl"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func kube(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryKube(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually polls until check passes, tells how long that took, and fails with
// the last complaint.
func eventually(t *testing.T, what string, limit time.Duration, check func(ctx context.Context) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			took := time.Since(began)
			t.Logf("%s: after %.1f s", what, took.Seconds())
			return took
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-ticker.C:
		}
	}
}

// available complains unless the aggregator calls our group what it should be.
func available(t *testing.T, want string) func(ctx context.Context) error {
	t.Helper()
	client := dynamic.NewForConfigOrDie(owncluster.Config(t)).Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	return func(ctx context.Context) error {
		found, err := client.Get(ctx, apiService, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(found.Object, "status", "conditions")
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok && c["type"] == "Available" && c["status"] == want {
				return nil
			}
		}
		return fmt.Errorf("want Available %s, have %v, error %v", want, conditions, err)
	}
}

// gone complains while a namespace is there.
func gone(t *testing.T, namespace string) func(ctx context.Context) error {
	t.Helper()
	namespaces := core(t).CoreV1().Namespaces()
	return func(ctx context.Context) error {
		found, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is %s: %v", found.Status.Phase, found.Status.Conditions)
		}
		return err
	}
}

// answer is a whole answer, and how long it took.
type answer struct {
	code int
	body string
	took time.Duration
}

// client asks for paths of one server, each time for one answer.
type client struct {
	*http.Client
	host string
}

// aggregator asks kube-apiserver.
func aggregator(t *testing.T, config *rest.Config) client {
	t.Helper()
	found, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client{found, config.Host}
}

func (c client) get(ctx context.Context, path string) (answer, error) {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host+path, nil)
	if err != nil {
		return answer{}, err
	}
	response, err := c.Do(request)
	if err != nil {
		return answer{took: time.Since(began)}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body), time.Since(began)}, err
}
