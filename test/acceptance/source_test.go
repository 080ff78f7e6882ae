package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const (
	// sourceName is the template's httpResource that is critical.
	sourceName = "source"
	// sourceText is what it holds whenever it can be had.
	sourceText = "the source"
)

// criticalSource serves the document without which nothing can be rendered by a
// controller that never fetched it. One that did goes on with what it has.
type criticalSource struct {
	server *httptest.Server
	broken atomic.Bool
}

// newCriticalSource serves where every pod reaches it: the cluster's network has
// one loopback interface for all.
func newCriticalSource(t *testing.T) *criticalSource {
	t.Helper()
	c := &criticalSource{}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if c.broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		// A client that went away asks again.
		_, _ = io.WriteString(w, sourceText)
	}))
	t.Cleanup(c.server.Close)
	return c
}

// patch puts the address in the template.
func (c *criticalSource) patch() string {
	return fmt.Sprintf(`[{"op": "replace", "path": "/spec/httpResources/%s/url", "value": %q}]`, sourceName, c.server.URL)
}

func (c *criticalSource) repair() { c.broken.Store(false) }

// cause is what the render error of a controller that never fetched it says.
func (c *criticalSource) cause() string {
	return fmt.Sprintf("critical httpResource %q (%s): never fetched: the server answered 503", sourceName, c.server.URL)
}

// block breaks the source and waits until the leader has noticed. The leader
// renders on, since it holds the document; a controller that starts now cannot.
func (s *stage) block() {
	s.t.Helper()
	leader := s.awaitLeader(nil)
	s.source.broken.Store(true)
	s.await("the leader says that the document is not current", func(ctx context.Context) error {
		template, err := s.haptic.HapticV1alpha1().HAProxyTemplateConfigs(s.namespace).Get(ctx, templateName, metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionFalse(template.Status.Conditions, v1alpha1.ConditionHTTPResources) {
			err = errors.New("its condition is not False")
		}
		return err
	})
	if err := s.wantSample(s.t.Context(), leader, blockedMetric+" 0"); err != nil {
		s.t.Errorf("a leader that holds the document does not render on: %v", err)
	}
}

// setInput changes what the template reads.
func (s *stage) setInput(key, value string) {
	s.t.Helper()
	s.setInputs(map[string]any{key: value})
}

// setInputs changes several at once; nil takes one away.
func (s *stage) setInputs(data map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.core.CoreV1().ConfigMaps(s.namespace).Patch(s.t.Context(), "inputs", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
