package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/generated/informers/externalversions"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

const (
	// askEvery is how often the impatient client lists.
	askEvery = 100 * time.Millisecond
	// watchesAtOnce keeps a hundred runs of kubectl from taking minutes.
	watchesAtOnce = 4
	// watchTime is how long a watch that was answered is given to fail.
	watchTime = 300 * time.Millisecond
)

// failure is a list that did not succeed, and when it ended.
type failure struct {
	at  time.Time
	err error
}

// answers are what an impatient client got.
type answers struct {
	lists, empty int
	slowest      time.Duration
	failures     []failure
}

// away is how long after a moment the last list failed.
func (a answers) away(since time.Time) time.Duration {
	if len(a.failures) == 0 {
		return 0
	}
	return a.failures[len(a.failures)-1].at.Sub(since)
}

func (a answers) complaints() string {
	var lines []string
	for _, f := range a.failures {
		lines = append(lines, f.at.Format(time.StampMilli)+" "+f.err.Error())
	}
	return strings.Join(lines[:min(len(lines), 20)], "\n")
}

// asking is a client that lists every 100 ms.
type asking struct {
	known *views.RetainedCheckpoint
	stop  func() answers
}

func startAsking(t *testing.T) asking {
	t.Helper()
	config := realConfig(t)
	config.Timeout = takeoverLimit
	client := versioned.NewForConfigOrDie(config).RetainedV1alpha1().RetainedCheckpoints(fleet)
	ctx, cancel := context.WithCancel(t.Context())
	var got answers
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(askEvery)
		defer ticker.Stop()
		for {
			began := time.Now()
			list, err := client.List(ctx, metav1.ListOptions{})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				got.failures = append(got.failures, failure{time.Now(), err})
			case len(list.Items) == 0:
				got.empty++
			}
			got.lists++
			got.slowest = max(got.slowest, time.Since(began))
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	stop := func() answers {
		cancel()
		running.Wait()
		return got
	}
	t.Cleanup(func() { stop() })
	return asking{known: mustNewest(t), stop: stop}
}

// store is what an informer keeps.
type store struct {
	client versioned.Interface
	cache  cache.Store
}

func startStore(t *testing.T) store {
	t.Helper()
	config := realConfig(t)
	client := versioned.NewForConfigOrDie(config)
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(fleet))
	informer := factory.Retained().V1alpha1().RetainedCheckpoints().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	eventually(t, "the informer has synced", func(context.Context) error {
		if !informer.HasSynced() {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	return store{client: client, cache: informer.GetStore()}
}

// right compares the store with what a list says now, by versions, so that a
// store that was left at a former replica's is wrong.
func (s store) right(ctx context.Context) error {
	list, err := s.client.RetainedV1alpha1().RetainedCheckpoints(fleet).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	want, got := map[string]string{}, map[string]string{}
	for i := range list.Items {
		want[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	for _, item := range s.cache.List() {
		c := item.(*views.RetainedCheckpoint)
		got[c.Name] = c.ResourceVersion
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("versions (-list +store):\n%s", diff)
	}
	return nil
}

// tamper changes a stored map without kubectl, which takes a second to start.
func (s store) tamper(t *testing.T, name string) {
	t.Helper()
	patch := []byte(`{"spec":{"entries":"tampered 1\n"}}`)
	_, err := s.client.HapticV1alpha1().HAProxyMapFiles(fleet).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (s store) says(name string, verified metav1.ConditionStatus) error {
	for _, item := range s.cache.List() {
		if c := item.(*views.RetainedCheckpoint); c.Name == name {
			return wantCondition(c.Status.Conditions, views.ConditionVerified, verified)
		}
	}
	return fmt.Errorf("the store has no checkpoint %s", name)
}

func manyWatches(t *testing.T) {
	count := *watches
	turns := make(chan struct{}, watchesAtOnce)
	problems := make([]error, count)
	var running sync.WaitGroup
	began := time.Now()
	for i := range count {
		turns <- struct{}{}
		running.Go(func() {
			problems[i] = shortWatch(t.Context())
			<-turns
		})
	}
	running.Wait()
	failed := 0
	for _, err := range problems {
		if err != nil {
			failed++
			t.Error(err)
		}
	}
	fmt.Printf("ha kubectl watches %d failed %d in %.1f s\n", count, failed, time.Since(began).Seconds())
}

// shortWatch runs kubectl until its watch was answered, and a little longer.
func shortWatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	cmd := cluster(ctx, "kubectl", "-n", fleet, "get", "rckpt", "-w", "-v=6")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var log strings.Builder
	answered := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stderr)
		seen := false
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
			if !seen && strings.Contains(lines.Text(), "watch=true") && strings.Contains(lines.Text(), "200 OK") {
				seen = true
				close(answered)
			}
		}
	}()
	select {
	case <-answered:
	case <-ended:
	}
	select {
	case <-time.After(watchTime):
		cancel()
		<-ended
		_ = cmd.Wait() // it was killed
		return nil
	case <-ended:
		return fmt.Errorf("kubectl get rckpt -w ended: %v:\n%s", cmd.Wait(), log.String())
	}
}

const account = "system:serviceaccount:" + system + ":holdfast-apiserver"

// ownWritesOnly asks the cluster what the server may do. Reviews are questions to
// the cluster; nothing is stored for them.
func ownWritesOnly(t *testing.T) {
	var writes []string
	for _, namespace := range []string{system, fleet, "kube-system", "default"} {
		out := kube(t, "auth", "can-i", "--list", "--no-headers", "-n", namespace, "--as="+account)
		for line := range strings.Lines(out) {
			resource, _, _ := strings.Cut(line, " ")
			verbs := strings.Fields(strings.Trim(line[strings.LastIndex(line, "["):], "[]\n"))
			for _, verb := range verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) && !strings.Contains(resource, "reviews.") {
					writes = append(writes, namespace+": "+verb+" "+strings.Join(strings.Fields(line), " "))
				}
			}
		}
	}
	slices.Sort(writes)
	want := []string{
		system + ": update endpointslices.discovery.k8s.io [] [holdfast-apiserver-active] [get update]",
		system + ": update leases.coordination.k8s.io [] [holdfast-apiserver] [get update]",
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("rights to write (-want +got):\n%s", diff)
	}
}

// ownTracesOnly looks for objects that the server has written.
func ownTracesOnly(t *testing.T) {
	out := kube(t, "get", "-A", "--show-managed-fields", "-o", "json",
		"leases,endpointslices,endpoints,services,secrets,configmaps,events,pods,"+
			"haproxytemplateconfigs,haproxycfgs,haproxymapfiles,haproxygeneralfiles,haproxycrtlistfiles")
	var list struct {
		Items []struct {
			metav1.TypeMeta
			metav1.ObjectMeta `json:"metadata"`
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, item := range list.Items {
		if slices.ContainsFunc(item.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "holdfast-apiserver" }) {
			written = append(written, item.Kind+" "+item.Namespace+"/"+item.Name)
		}
	}
	slices.Sort(written)
	want := []string{"EndpointSlice " + system + "/holdfast-apiserver-active", "Lease " + system + "/holdfast-apiserver"}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("objects that it wrote (-want +got), of %d:\n%s", len(list.Items), diff)
	}
}
