package aggregation

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

const (
	// blockedFor is longer than a liveness probe of manifests/ needs to end a
	// process, and than any answer of the cluster is kept.
	blockedFor = time.Minute
	// probePeriod is closer than any probe's.
	probePeriod = time.Second
)

func hostPort(host string) string {
	parsed, err := url.Parse(host)
	if err != nil || parsed.Port() != "" {
		return strings.TrimPrefix(host, "https://")
	}
	return parsed.Hostname() + ":443"
}

// TestP2cAServerCutOffFromTheClusterLivesDiscoversAndRecovers: the server loses its
// way to the very API server whose objects it shows.
func TestP2cAServerCutOffFromTheClusterLivesDiscoversAndRecovers(t *testing.T) {
	kubeconfig, route := routedBy(t)
	s := serve(t, kubeconfig)
	mustExist(t, "before")
	eventually(t, "what was stored before is shown", settle, s.shows(edge, "before"))

	route.block()
	restored := false
	defer func() {
		if !restored {
			route.restore()
		}
	}()
	mustExist(t, "meanwhile")
	slowest := s.livesAndDiscovers(t, blockedFor)
	route.restore()
	restored = true

	ready := eventually(t, "the server is ready", settle, func(ctx context.Context) error { return s.answers(ctx, "/readyz") })
	eventually(t, "the group is available", settle, available(t, "True"))
	shown := eventually(t, "what was stored meanwhile is shown", settle, s.shows(edge, "meanwhile"))
	fmt.Printf("P2c: cut off for %s, slowest discovery %d ms, ready %.1f s and right %.1f s after the route was back\n",
		blockedFor, slowest.Milliseconds(), ready.Seconds(), shown.Seconds())
}

// livesAndDiscovers probes the process and asks the aggregator for our group, each
// time as somebody whom the server has not met.
func (s *server) livesAndDiscovers(t *testing.T, span time.Duration) (slowest time.Duration) {
	t.Helper()
	paths := []string{groupPath, "/apis/" + group}
	end := time.NewTimer(span)
	defer end.Stop()
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	for i := 0; ; i++ {
		if err := s.answers(t.Context(), "/livez"); err != nil {
			t.Errorf("after %d s a liveness probe would count against it: %v", i, err)
		}
		somebody := aggregator(t, as(owncluster.Config(t), fmt.Sprintf("visitor-%d", i)))
		got, err := somebody.get(t.Context(), paths[i%len(paths)])
		if err != nil || got.code != http.StatusOK || got.took > refusalLimit {
			t.Errorf("after %d s discovery says %d after %s, error %v, want 200 within %s: %.200s", i, got.code, got.took, err, refusalLimit, got.body)
		}
		slowest = max(slowest, got.took)
		if !s.running() {
			t.Fatalf("after %d s the process has ended", i)
		}
		select {
		case <-end.C:
			return slowest
		case <-ticker.C:
		}
	}
}

// answers complains unless the process itself says 200.
func (s *server) answers(ctx context.Context, path string) error {
	got, err := s.direct().get(ctx, path)
	if err == nil && got.code != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, got.code, got.body)
	}
	return err
}

// shows complains unless the aggregator shows the checkpoint.
func (s *server) shows(namespace, name string) func(ctx context.Context) error {
	s.Helper()
	client := aggregator(s.T, owncluster.Config(s.T))
	return func(ctx context.Context) error {
		got, err := client.get(ctx, groupPath+"/namespaces/"+namespace+"/retainedcheckpoints/"+name)
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("%d %s", got.code, got.body)
		}
		return err
	}
}

// mustExist stores what is shown as a checkpoint of a template that is not there.
func mustExist(t *testing.T, name string) {
	t.Helper()
	haptic := stored(t).HAProxyCfgs(edge)
	if _, err := haptic.Create(t.Context(), orphan(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := haptic.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
