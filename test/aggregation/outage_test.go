package aggregation

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/test/owncluster"
)

const (
	// refusalLimit is how long a dead server may keep anybody waiting.
	refusalLimit = time.Second
	refusals     = 20
)

// TestP2aAStoppedServerRefusesFastAndNamespacesGoOnceItIsBack: what a dead server
// blocks is blocked for as long as it is dead, and nobody waits for an answer.
func TestP2aAStoppedServerRefusesFastAndNamespacesGoOnceItIsBack(t *testing.T) {
	s := serve(t, "")
	namespaces := core(t).CoreV1().Namespaces()
	const passing = "passing"
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: passing}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.kill()
	slowest := refusedFast(t)
	// Until discovery has noticed, a namespace goes: read-only kinds hold nothing of it.
	eventually(t, "discovery has noticed", settle, undiscoverable(t))
	if err := namespaces.Delete(t.Context(), passing, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	found := discovered(t)
	eventually(t, "the namespace says what it waits for", settle, func(ctx context.Context) error {
		blocked, err := namespaces.Get(ctx, passing, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			t.Fatal("the namespace went while the server was dead: docs/limits.md says that it waits")
		}
		if err != nil {
			return err
		}
		for _, c := range blocked.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", blocked.Status.Conditions)
	})
	s.start()
	took := eventually(t, "the namespace is gone", settle, gone(t, passing))
	fmt.Printf("P2a: slowest of %d refusals %d ms, discovery through a cache %d ms, namespace gone %.1f s after the server was back\n",
		refusals, slowest.Milliseconds(), found.Milliseconds(), took.Seconds())
}

// refusedFast asks for our group and an object of it, by a new connection and by a
// kept one.
func refusedFast(t *testing.T) (slowest time.Duration) {
	t.Helper()
	kept := aggregator(t, owncluster.Config(t))
	for i := range refusals {
		path := []string{groupPath, rckpts}[i%2]
		got, err := kept.get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if got.code != http.StatusServiceUnavailable || got.took > refusalLimit {
			t.Errorf("%s of a dead server: %d after %s, want 503 within %s: %.200s", path, got.code, got.took, refusalLimit, got.body)
		}
		slowest = max(slowest, got.took)
	}
	return slowest
}

// discovered asks for all groups as kubectl does, and wants the others'.
func discovered(t *testing.T) time.Duration {
	t.Helper()
	client, err := disk.NewCachedDiscoveryClientForConfig(owncluster.Config(t), t.TempDir(), t.TempDir(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	lists, err := discovery.ServerPreferredResources(client)
	took := time.Since(began)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		t.Errorf("discovery fails as a whole: %v", err)
	}
	if len(lists) < 10 || took > refusalLimit {
		t.Errorf("discovery found %d groups and versions within %s, want the cluster's own within %s", len(lists), took, refusalLimit)
	}
	return took
}

// undiscoverable reports that the cluster's discovery fails for our group.
func undiscoverable(t *testing.T) func(context.Context) error {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(owncluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return func(context.Context) error {
		_, err := client.ServerPreferredResources()
		if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok && failed[views.SchemeGroupVersion] != nil {
			return nil
		}
		return fmt.Errorf("discovery of %s does not fail: %v", views.SchemeGroupVersion, err)
	}
}

// TestP2bAFrozenServerIsAvailableAgainByItself: it accepts connections and never
// answers, as a process does whose node has stopped giving it time.
func TestP2bAFrozenServerIsAvailableAgainByItself(t *testing.T) {
	s := serve(t, "")
	frozen := time.Now()
	s.signal(syscall.SIGSTOP)
	// Otherwise the aggregator looks within half a minute.
	kube(t, "annotate", "--overwrite", "apiservice", apiService, "example.com/look=now")
	eventually(t, "the aggregator has noticed", settle, available(t, "False"))
	noticed := time.Since(frozen)
	s.signal(syscall.SIGCONT)
	took := eventually(t, "the group is available", settle, available(t, "True"))
	eventually(t, "there are answers", settle, func(ctx context.Context) error {
		got, err := aggregator(t, owncluster.Config(t)).get(ctx, rckpts)
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("%d %s", got.code, got.body)
		}
		return err
	})
	fmt.Printf("P2b: unavailable %.1f s after it froze, available %.1f s after it went on\n", noticed.Seconds(), took.Seconds())
}
