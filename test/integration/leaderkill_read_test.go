package integration

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

const (
	// maxProblems is enough to see what is wrong.
	maxProblems = 10
	// maxUnread bounds the revisions that wait for their turn.
	maxUnread = 1 << 14
)

// sightings are what a reader found.
type sightings struct {
	revisions, verifications int
	// checkpoints are the names that pointers had.
	checkpoints map[string]bool
	problems    []string
}

// reading is a reader at work. It shares nothing with the controllers, which are
// other processes, and no client with anybody.
type reading struct {
	*killing
	watching sync.WaitGroup
	unread   chan string
	done     chan sightings
	// stop judges what was seen until now and gives everything found.
	stop func() sightings
}

// read judges every revision at which anything that belongs to checkpoints
// changed, until it is stopped. All resources share the store's revisions, and
// each is listed exactly as it was at one: nothing is read while it changes, so
// whatever does not verify was so in the store.
func (k *killing) read(ctx context.Context) *reading {
	k.t.Helper()
	watchCtx, stop := context.WithCancel(ctx)
	r := &reading{killing: k, unread: make(chan string, maxUnread), done: make(chan sightings, 1)}
	for _, resource := range []string{"haproxycfgs", "haproxymapfiles", "haproxygeneralfiles", "haproxycrtlistfiles"} {
		r.watch(watchCtx, stored.SchemeGroupVersion.WithResource(resource))
	}
	r.watch(watchCtx, schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	go func() {
		found := sightings{checkpoints: map[string]bool{}}
		for revision := range r.unread {
			r.judge(ctx, revision, &found)
		}
		r.done <- found
	}()
	r.stop = sync.OnceValue(func() sightings {
		stop()
		r.watching.Wait()
		close(r.unread)
		return <-r.done
	})
	k.t.Cleanup(func() { r.stop() })
	return r
}

// watch queues the revisions of a resource's changes.
func (r *reading) watch(ctx context.Context, resource schema.GroupVersionResource) {
	r.t.Helper()
	client := r.anything.Resource(resource).Namespace(killed)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.watching.Go(func() {
		for change := range changes.ResultChan() {
			object, err := meta.Accessor(change.Object)
			if err != nil || change.Type == watch.Error {
				r.t.Errorf("watching %s ended: %v", resource.Resource, change)
				return
			}
			select {
			case r.unread <- object.GetResourceVersion():
			default:
				r.t.Errorf("the reader is %d revisions behind", maxUnread)
				return
			}
		}
	})
}

// judge verifies every pointer of one revision.
func (r *reading) judge(ctx context.Context, revision string, found *sightings) {
	at := metav1.ListOptions{ResourceVersion: revision, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	outputs, err := r.haptic.HapticV1alpha1().HAProxyCfgs(killed).List(ctx, at)
	var children []*checkpoint.StoredChild
	if err == nil {
		children, err = r.childrenAt(ctx, at)
	}
	if err != nil {
		found.complain("reading revision %s: %v", revision, err)
		return
	}
	found.revisions++
	byName := map[string]*stored.HAProxyCfg{}
	for i := range outputs.Items {
		byName[outputs.Items[i].Name] = &outputs.Items[i]
	}
	ordinary := byName[checkpoint.OrdinaryName(killed)]
	if ordinary == nil {
		return
	}
	pointers, _ := record.Ordinary(ordinary)
	for _, pointer := range pointers {
		found.verifications++
		found.checkpoints[pointer.Name] = true
		cfg := byName[pointer.Name]
		if cfg == nil {
			found.complain("at revision %s pointer %s names nothing", revision, pointer.Name)
			continue
		}
		verdict, _ := checkpoint.Verify(r.template, record.Checkpoint(cfg), children, &pointer)
		if verdict.State != checkpoint.Verified || !verdict.Acknowledged {
			found.complain("at revision %s pointer %s is %s %s (acknowledged %v): %s",
				revision, pointer.Name, verdict.State, verdict.Reason, verdict.Acknowledged, verdict.Message)
		}
	}
}

func (s *sightings) complain(format string, args ...any) {
	if len(s.problems) < maxProblems {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

// childrenAt lists what may belong to checkpoints.
func (k *killing) childrenAt(ctx context.Context, at metav1.ListOptions) (all []*checkpoint.StoredChild, err error) {
	haptic := k.haptic.HapticV1alpha1()
	maps, err := haptic.HAProxyMapFiles(killed).List(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("maps: %w", err)
	}
	files, err := haptic.HAProxyGeneralFiles(killed).List(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	lists, err := haptic.HAProxyCRTListFiles(killed).List(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("certificate lists: %w", err)
	}
	secrets, err := k.core.CoreV1().Secrets(killed).List(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	for i := range maps.Items {
		all = append(all, record.MapFile(&maps.Items[i]))
	}
	for i := range files.Items {
		all = append(all, record.GeneralFile(&files.Items[i]))
	}
	for i := range lists.Items {
		all = append(all, record.CRTListFile(&lists.Items[i]))
	}
	for i := range secrets.Items {
		all = append(all, record.Secret(&secrets.Items[i]))
	}
	return all, nil
}
