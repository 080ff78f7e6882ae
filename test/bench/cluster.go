package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
)

// Namespaces, as in manifests/.
const (
	systemNamespace = "holdfast-system"
	idleNamespace   = "bench-idle"
	largeNamespace  = "bench-large"
	smallNamespace  = "bench-small"
	termNamespace   = "bench-term"
)

// cluster is the one that the benchmarks run in.
type cluster struct {
	settings
	config *rest.Config
	core   kubernetes.Interface
	stored versioned.Interface
	// ca is the certificate that the API server's own is signed with.
	ca []byte
	// filled are the namespaces that hold their checkpoints.
	filled map[string]bool
	server *server
}

// connect finds the cluster by KUBECONFIG and gives the API server what it waits
// for: its certificate.
func connect(ctx context.Context, s settings) (*cluster, error) {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		return nil, errors.New("there is no cluster to measure in (KUBECONFIG is not set): run make bench")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	// The benchmarks bound their own requests.
	config.QPS = -1
	config.UserAgent = "holdfast-bench"
	c := &cluster{settings: s, config: config, filled: map[string]bool{}}
	if c.core, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.stored, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for stored objects: %w", err)
	}
	return c, c.certify(ctx)
}

const pollInterval = 200 * time.Millisecond

// eventually polls until check passes, and fails with its last complaint.
func eventually(ctx context.Context, what string, limit time.Duration, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, limit, err)
		case <-ticker.C:
		}
	}
}

// verifyLimit bounds the first verification of all checkpoints. The API server
// reads every file of every checkpoint once, at a bounded rate.
const verifyLimit = 10 * time.Minute

// verified waits until every checkpoint of the namespace verifies. Nothing is
// measured before: wrong answers may well be faster.
func (c *cluster) verified(ctx context.Context, namespace string) error {
	p := progress{what: "checkpoints that verify", total: c.checkpoints}
	return eventually(ctx, "verification in "+namespace, verifyLimit, func(ctx context.Context) error {
		opts := metav1.ListOptions{FieldSelector: "status.verified=True"}
		list, err := c.stored.RetainedV1alpha1().RetainedCheckpoints(namespace).List(ctx, opts)
		if err != nil {
			return fmt.Errorf("listing checkpoints that verify: %w", err)
		}
		p.at(len(list.Items))
		if found := len(list.Items); found != c.checkpoints {
			return fmt.Errorf("%d of %d checkpoints verify", found, c.checkpoints)
		}
		return nil
	})
}

// prepared makes the API server serve a namespace full of verified checkpoints.
func (c *cluster) prepared(ctx context.Context, namespace string, s shape) error {
	if err := c.serve(ctx, namespace); err != nil {
		return err
	}
	if err := c.fill(ctx, namespace, s); err != nil {
		return err
	}
	return c.verified(ctx, namespace)
}
