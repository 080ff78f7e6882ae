package integration

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	system = "holdfast-system"
	// takeoverLimit is how soon after a sudden death there are answers again, and
	// storeLimit how much later a watcher's store must be right.
	takeoverLimit = 6 * time.Second
	storeLimit    = 10 * time.Second
	rollLimit     = 3 * time.Minute
)

// Every run tries a few; a hundred and three are what is promised.
var (
	watches = flag.Int("ha.watches", 10, "how many watches by kubectl to try")
	rolls   = flag.Int("ha.rolls", 1, "how many rolling restarts to try")
)

// TestTwoReplicasAnswerAsOne: clients whose every request goes wherever the
// aggregator finds an endpoint meet one server, whatever happens to the two.
func TestTwoReplicasAnswerAsOne(t *testing.T) {
	beHighlyAvailable(t)
	t.Run("the server may write its Lease and its EndpointSlice and nothing else", ownWritesOnly)
	t.Run("watches by kubectl meet no error", manyWatches)
	t.Run("rolling restarts fail no list", rollingRestarts)
	t.Run("a killed active replica is replaced within seconds", killedActive)
	t.Run("what it has written are its Lease and its EndpointSlice", ownTracesOnly)
}

// beHighlyAvailable puts the component over the demo, and takes it back.
func beHighlyAvailable(t *testing.T) {
	t.Helper()
	overlay := kustomized(t, []string{"overlays/demo"}, []string{"components/high-availability"})
	t.Cleanup(func() { beAlone(t, "../../manifests/overlays/demo") })
	kube(t, "apply", "--server-side", "--force-conflicts", "-k", overlay)
	rollOut(t)
	forgetOneReplica(t)
	eventually(t, "clients are led to one of two replicas", func(ctx context.Context) error {
		_, err := active(ctx)
		return err
	})
}

// forgetOneReplica is what docs/install.md tells to do when coming from one.
func forgetOneReplica(t *testing.T) {
	t.Helper()
	kube(t, "-n", system, "delete", "endpoints", "holdfast-apiserver", "--ignore-not-found")
	kube(t, "-n", system, "delete", "endpointslices", "-l",
		"kubernetes.io/service-name=holdfast-apiserver,endpointslice.kubernetes.io/managed-by!=holdfast-apiserver")
}

// beAlone makes the demo what the other tests expect.
func beAlone(t *testing.T, demo string) {
	ctx, cancel := context.WithTimeout(context.Background(), rollLimit)
	defer cancel()
	for _, args := range [][]string{
		{"apply", "--server-side", "--force-conflicts", "-k", demo},
		{"-n", system, "delete", "endpointslice/holdfast-apiserver-active", "lease/holdfast-apiserver", "pdb/holdfast-apiserver",
			"role/holdfast-apiserver:active", "rolebinding/holdfast-apiserver:active"},
		{"-n", system, "rollout", "status", "deployment/holdfast-apiserver", "--timeout=2m"},
		{"wait", "--for=condition=Available", "--timeout=60s", "apiservice/v1alpha1.retained.haproxy-haptic.org"},
	} {
		if out, err := tryKube(ctx, args...); err != nil {
			t.Errorf("taking the second replica back: %v: %s", err, out)
		}
	}
}

func rollOut(t *testing.T) {
	t.Helper()
	kube(t, "-n", system, "rollout", "status", "deployment/holdfast-apiserver", "--timeout="+rollLimit.String())
}

// active returns the address that clients are led to, if it is the one there is.
func active(ctx context.Context) (string, error) {
	out, err := tryKube(ctx, "-n", system, "get", "endpointslices", "-l", "kubernetes.io/service-name=holdfast-apiserver", "-o", "json")
	if err != nil {
		return "", err
	}
	var list discoveryv1.EndpointSliceList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return "", fmt.Errorf("decoding endpoint slices: %w", err)
	}
	if len(list.Items) != 1 || len(list.Items[0].Endpoints) != 1 || len(list.Items[0].Endpoints[0].Addresses) != 1 {
		return "", fmt.Errorf("clients are led to %s", out)
	}
	return list.Items[0].Endpoints[0].Addresses[0], nil
}

// processAt finds the API server's process of this cluster that serves at an
// address. Other clusters on this machine may have the same one.
func processAt(address string) (int, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, folder := range folders {
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		mounts, _ := os.ReadFile(filepath.Join(folder, "mountinfo"))
		if strings.HasPrefix(string(line), "holdfast-apiserver\x00") && strings.Contains(string(line), "--bind-address="+address+"\x00") &&
			strings.Contains(string(mounts), os.Getenv("HOLDFAST_DEVCLUSTER")) {
			return strconv.Atoi(filepath.Base(folder))
		}
	}
	return 0, fmt.Errorf("no process of this cluster serves at %s", address)
}

func rollingRestarts(t *testing.T) {
	ask := startAsking(t)
	store := startStore(t)
	for range *rolls {
		before, err := active(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kube(t, "-n", system, "rollout", "restart", "deployment/holdfast-apiserver")
		rollOut(t)
		eventually(t, "another replica is active, and the store is right", func(ctx context.Context) error {
			now, err := active(ctx)
			if err != nil {
				return err
			}
			if now == before {
				return errors.New("clients are led where they were")
			}
			return store.right(ctx)
		})
	}
	answers := ask.stop()
	fmt.Printf("ha rolling restarts %d lists %d failed %d empty %d slowest %d ms\n",
		*rolls, answers.lists, len(answers.failures), answers.empty, answers.slowest.Milliseconds())
	if len(answers.failures) > 0 || answers.empty > 0 || answers.lists < 30**rolls {
		t.Errorf("of %d lists %d were empty and these failed:\n%s", answers.lists, answers.empty, answers.complaints())
	}
}

func killedActive(t *testing.T) {
	ask := startAsking(t)
	store := startStore(t)
	address, err := active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pid, err := processAt(address)
	if err != nil {
		t.Fatal(err)
	}
	artifact := artifactOf(t, ask.known, "Map")
	raw := kube(t, "-n", fleet, "get", "haproxymapfile", artifact.Object.Name, "-o", "jsonpath={.spec.entries}")
	defer patchEntries(t, artifact.Object.Name, raw)
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Something changes while nobody can tell.
	store.tamper(t, artifact.Object.Name)
	eventually(t, "the store is right", func(ctx context.Context) error {
		return errors.Join(store.says(ask.known.Name, metav1.ConditionFalse), store.right(ctx))
	})
	right := time.Since(killed)
	answers := ask.stop()
	// It may be the same address: a container that comes back before its Lease has
	// run out goes on where it was.
	if _, err := active(t.Context()); err != nil {
		t.Errorf("clients are led nowhere: %v", err)
	}
	away := answers.away(killed)
	fmt.Printf("ha killed active: answers again after %.1f s, store right after %.1f s, lists %d failed %d empty %d\n",
		away.Seconds(), right.Seconds(), answers.lists, len(answers.failures), answers.empty)
	if away > takeoverLimit || right > away+storeLimit || answers.empty > 0 {
		t.Errorf("no answers for %s, a right store after %s, %d empty answers:\n%s", away, right, answers.empty, answers.complaints())
	}
}
