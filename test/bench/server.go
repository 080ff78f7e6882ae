package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

const (
	deployment     = "holdfast-apiserver"
	podSelector    = "app.kubernetes.io/name=holdfast-apiserver"
	namespacesFlag = "--namespaces="
	serverPort     = 6443
	// serveLimit bounds a start of the API server. It is Ready after it has
	// verified everything.
	serveLimit = verifyLimit
)

// server is one running process of the API server, reached past the aggregator.
type server struct {
	pod, namespace string
	base           string
	client         *http.Client
}

// serve makes the API server serve one namespace, in a new process unless it is
// the one that runs.
func (c *cluster) serve(ctx context.Context, namespace string) error {
	if c.server != nil && c.server.namespace == namespace {
		return nil
	}
	return c.restart(ctx, namespace)
}

func (c *cluster) restart(ctx context.Context, namespace string) error {
	started := time.Now()
	before := ""
	if c.server != nil {
		before = c.server.pod
	}
	deployments := c.core.AppsV1().Deployments(systemNamespace)
	var want *appsv1.Deployment
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := deployments.Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod := &d.Spec.Template
		args := pod.Spec.Containers[0].Args
		pod.Spec.Containers[0].Args = append(slices.DeleteFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, namespacesFlag)
		}), namespacesFlag+namespace)
		// A new process even for the same namespace.
		pod.Annotations = map[string]string{"bench/started": started.Format(time.RFC3339Nano)}
		want, err = deployments.Update(ctx, d, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("pointing the API server to %s: %w", namespace, err)
	}
	err = eventually(ctx, "API server for "+namespace, serveLimit, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration < want.Generation || s.UpdatedReplicas != 1 || s.AvailableReplicas != 1 || s.Replicas != 1 {
			return errors.New("its pod is not ready")
		}
		if c.server, err = c.findServer(ctx, before, namespace); err != nil {
			return err
		}
		_, err = c.stored.RetainedV1alpha1().RetainedCheckpoints(namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return err
	}
	say("  API server serves %s, %.1f s after the change", namespace, time.Since(started).Seconds())
	return nil
}

func (c *cluster) findServer(ctx context.Context, before, namespace string) (*server, error) {
	pods, err := c.core.CoreV1().Pods(systemNamespace).List(ctx, metav1.ListOptions{LabelSelector: podSelector})
	if err != nil {
		return nil, err
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.PodIP == "" || p.Name == before })
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("it has %d new pods with an address", len(pods.Items))
	}
	s := &server{
		pod: pods.Items[0].Name, namespace: namespace,
		base: fmt.Sprintf("https://%s:%d", pods.Items[0].Status.PodIP, serverPort),
	}
	config := rest.CopyConfig(c.config)
	config.CAData, config.ServerName = c.ca, serverName
	s.client, err = rest.HTTPClientFor(config)
	return s, err
}

// get returns the body of an answer, which the caller closes.
func (s *server) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("asking for %s: %s", path, answer.Status)
	}
	return answer.Body, nil
}

// usage is what a process says of its memory, in bytes.
type usage struct {
	resident, heap float64
}

func (s *server) usage(ctx context.Context) (usage, error) {
	body, err := s.get(ctx, "/metrics")
	if err != nil {
		return usage{}, err
	}
	defer body.Close()
	var u usage
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "process_resident_memory_bytes":
			u.resident, err = strconv.ParseFloat(value, 64)
		case "go_memstats_heap_alloc_bytes":
			u.heap, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return usage{}, fmt.Errorf("reading metric %s: %w", name, err)
		}
	}
	if u.resident == 0 || u.heap == 0 {
		return usage{}, errors.New("the API server does not tell its memory")
	}
	return u, lines.Err()
}

// profile reads a profile to its end and keeps it if asked to. The heap profile
// with gc=1 is also how to make a process collect its garbage.
func (c *cluster) profile(ctx context.Context, query, name string) error {
	body, err := c.server.get(ctx, "/debug/pprof/"+query)
	if err != nil {
		return err
	}
	defer body.Close()
	sink := io.Discard
	if c.profiles != "" {
		file, err := os.Create(filepath.Join(c.profiles, name+".pprof"))
		if err != nil {
			return fmt.Errorf("keeping a profile: %w", err)
		}
		defer file.Close()
		sink = file
	}
	if _, err := io.Copy(sink, body); err != nil {
		return fmt.Errorf("reading a profile: %w", err)
	}
	return nil
}
