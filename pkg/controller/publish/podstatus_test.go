package publish

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

func statusFor(o *checkpoint.Output, pod string) v1alpha1.PodDeploymentStatus {
	e := entryFor(o, pod)
	return v1alpha1.PodDeploymentStatus{
		PodName: e.PodName, PodUID: e.PodUID, PodRuntimeID: e.PodRuntimeID, Checksum: e.Checksum,
		AppliedPlanID: e.AppliedPlanID, RunningPlanID: e.RunningPlanID, Mode: e.Mode,
	}
}

// fleet are pods with the UIDs of their entries.
func fleet(pods ...string) map[string]string {
	living := map[string]string{}
	for _, pod := range pods {
		living[pod] = pod + "-uid"
	}
	return living
}

// reporting is a publisher whose pods have told that they run a.
func reporting(t *testing.T, pods ...string) (*running, *checkpoint.Output) {
	t.Helper()
	r, a := run(t, newAPI(t), &fence{}), site(t, "a")
	r.Pods(fleet(pods...))
	r.deploy(a, 1)
	for _, pod := range pods {
		r.PodStatus(statusFor(a, pod), a)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	r.api.took()
	return r, a
}

// mapOf is the key of the ordinary output's map.
func mapOf(api *server) objectKey {
	cfg := read[v1alpha1.HAProxyCfg](api, ordinaryKey)
	return objectKey{v1alpha1.KindMapFile, cfg.Status.AuxiliaryFiles.MapFiles[0].Name}
}

// applies are the kinds of the objects that entries were applied to.
func applies(requests []request) []string {
	var kinds []string
	for _, r := range requests {
		if r.Verb == "apply" && !r.Failed {
			kinds = append(kinds, r.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

func TestAnIdenticalReportIsAppliedToTheOutputAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, a := reporting(t, "pod-1", "pod-2")
		defer r.stop()
		wantEntries(t, r.api, "pod-1", "pod-2")
		r.PodStatus(statusFor(a, "pod-1"), a)
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{v1alpha1.KindCfg}, applies(r.api.took())); diff != "" {
			t.Errorf("applies of an identical report (-want +got):\n%s", diff)
		}
	})
}

// A drift round applies again exactly what an object no longer shows: the UID,
// the entry and the pod's managed fields are compared.
func TestADriftRoundAppliesAgainWhatDiffers(t *testing.T) {
	t.Parallel()
	dropFirst := func(entries []v1alpha1.PodDeploymentStatus) []v1alpha1.PodDeploymentStatus {
		return slices.DeleteFunc(entries, func(e v1alpha1.PodDeploymentStatus) bool { return e.PodName == "pod-1" })
	}
	tests := []struct {
		name   string
		change func(t *testing.T, api *server)
		want   []string
	}{
		{name: "nothing", change: func(*testing.T, *server) {}},
		{name: "an entry taken off a file", want: []string{v1alpha1.KindMapFile}, change: func(_ *testing.T, api *server) {
			edit(api, mapOf(api), func(o *v1alpha1.HAProxyMapFile) { o.Status.DeployedToPods = dropFirst(o.Status.DeployedToPods) })
		}},
		{name: "an entry taken off the output", want: []string{v1alpha1.KindCfg}, change: func(_ *testing.T, api *server) {
			edit(api, ordinaryKey, func(o *v1alpha1.HAProxyCfg) { o.Status.DeployedToPods = dropFirst(o.Status.DeployedToPods) })
		}},
		{name: "an entry changed on a file", want: []string{v1alpha1.KindMapFile}, change: func(_ *testing.T, api *server) {
			edit(api, mapOf(api), func(o *v1alpha1.HAProxyMapFile) { o.Status.DeployedToPods[0].Checksum = "other" })
		}},
		{name: "the same entry taken over by another manager", want: []string{v1alpha1.KindMapFile}, change: func(t *testing.T, api *server) {
			o := read[v1alpha1.HAProxyMapFile](api, mapOf(api))
			entry, _ := entryOf(o.Status.DeployedToPods, "pod-1")
			// First the pod's manager gives it up, then the other one has it alone.
			k := childKinds(api.clients(fakeapi.Admin))[0]
			empty := target{key: mapOf(api), uid: o.UID}
			empty.version = o.ResourceVersion
			_, err := k.status().apply(context.Background(), o.Name, entryPatch(empty, entry), "somebody")
			must(t, err)
			empty.version = read[v1alpha1.HAProxyMapFile](api, empty.key).ResourceVersion
			other := entry
			other.PodName = "pod-x"
			_, err = k.status().apply(context.Background(), o.Name, entryPatch(empty, other), managerOf("pod-1"))
			must(t, err)
		}},
		{name: "a file created anew", want: []string{v1alpha1.KindMapFile, v1alpha1.KindMapFile}, change: func(_ *testing.T, api *server) {
			api.remove(mapOf(api))
		}},
		{name: "a change of somebody else's", change: func(_ *testing.T, api *server) {
			edit(api, mapOf(api), func(o *v1alpha1.HAProxyMapFile) { o.Labels["example.org/mine"] = "1" })
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := reporting(t, "pod-1", "pod-2")
				defer r.stop()
				tc.change(t, r.api)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(tc.want, applies(r.api.took())); diff != "" {
					t.Errorf("applies in the drift rounds (-want +got):\n%s", diff)
				}
				wantEntries(t, r.api, "pod-1", "pod-2")
			})
		})
	}
}

func TestDriftRoundsGoOnWhileRenderingIsBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := reporting(t, "pod-1", "pod-2")
		defer r.stop()
		r.Block()
		edit(r.api, mapOf(r.api), func(o *v1alpha1.HAProxyMapFile) { o.Status.DeployedToPods = nil })
		r.Pods(fleet("pod-2"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		wantEntries(t, r.api, "pod-2")
	})
}

func TestANewLeaderAppliesEverythingOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, a := reporting(t, "pod-1", "pod-2")
		r.stop()
		next := run(t, r.api, &fence{})
		defer next.stop()
		next.Pods(fleet("pod-1", "pod-2"))
		next.deploy(a, 1)
		for range 3 {
			next.PodStatus(statusFor(a, "pod-1"), a)
			next.PodStatus(statusFor(a, "pod-2"), a)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		counts := map[string]int{}
		for _, kind := range applies(next.api.took()) {
			counts[kind]++
		}
		want := map[string]int{
			v1alpha1.KindCfg: 6, v1alpha1.KindMapFile: 2, v1alpha1.KindGeneralFile: 2, v1alpha1.KindCRTListFile: 2,
		}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("applies of two pods that report three times (-want +got):\n%s", diff)
		}
	})
}

func TestAnObjectThatWasCreatedAnewGetsNoEntryOfTheOldOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, a := reporting(t, "pod-1")
		defer r.stop()
		key := mapOf(r.api)
		o := read[v1alpha1.HAProxyMapFile](r.api, key)
		r.api.remove(key)
		o.ObjectMeta = metav1.ObjectMeta{Name: o.Name, Namespace: namespace, Labels: o.Labels, Annotations: o.Annotations, OwnerReferences: o.OwnerReferences}
		o.Status = v1alpha1.AuxiliaryFileStatus{}
		r.api.create(o)
		r.Pods(fleet("pod-1", "pod-2"))
		r.PodStatus(statusFor(a, "pod-2"), a)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := read[v1alpha1.HAProxyMapFile](r.api, key).Status.DeployedToPods; len(got) > 0 {
			t.Errorf("entries %v on an object that was not published", got)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		wantEntries(t, r.api, "pod-1", "pod-2")
	})
}

func TestEntriesOfGonePodsGoAndReceiptsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, a := reporting(t, "pod-1", "pod-2")
		defer r.stop()
		step := func(living map[string]string, want ...string) {
			t.Helper()
			r.Pods(living)
			time.Sleep(time.Second)
			synctest.Wait()
			wantEntries(t, r.api, want...)
		}
		step(fleet("pod-2"), "pod-2")
		r.PodStatus(statusFor(a, "pod-1"), a) // a report that was under way
		step(fleet("pod-2"), "pod-2")
		step(map[string]string{"pod-2": "another-uid"})
		cfg := read[v1alpha1.HAProxyCfg](r.api, checkpointKey(t, r.api, 0))
		if got := cfg.Status.DeployedToPods; len(got) != 1 || got[0].PodName != "pod-1" {
			t.Errorf("entries of the checkpoint are %v, want pod-1's receipt", got)
		}
	})
}

func TestAnEntryThatIsRefusedForGoodHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, a := reporting(t, "pod-1")
		defer r.stop()
		bad := statusFor(a, "pod-0")
		bad.Mode = "unheard-of"
		r.Pods(fleet("pod-0", "pod-1", "pod-2"))
		r.PodStatus(bad, a)
		r.PodStatus(statusFor(a, "pod-2"), a)
		time.Sleep(3 * time.Minute)
		r.PodStatus(bad, a)
		time.Sleep(time.Minute)
		synctest.Wait()
		refused := 0
		for _, q := range r.api.took() {
			if q.Verb == "apply" && q.Failed {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d refused applies, want 1", refused)
		}
		// Its entries on files are in order.
		if got := names(read[v1alpha1.HAProxyCfg](r.api, ordinaryKey).Status.DeployedToPods); !slices.Equal(got, []string{"pod-1", "pod-2"}) {
			t.Errorf("entries of %v", got)
		}
	})
}

func TestEntriesAreBounded(t *testing.T) {
	t.Parallel()
	long := v1alpha1.PodDeploymentStatus{PodName: "p", LastError: strings.Repeat("ü", 1000)}
	for i := range 20 {
		long.Reasons = append(long.Reasons, fmt.Sprint(i, strings.Repeat("r", 100)))
	}
	got := bounded(long)
	if len(got.LastError) != maxErrorBytes || strings.Trim(got.LastError, "ü") != "" {
		t.Errorf("error of %d bytes: %q", len(got.LastError), got.LastError)
	}
	if len(got.Reasons) != maxReasons || len(got.Reasons[7]) != maxReasonBytes {
		t.Errorf("reasons %q", got.Reasons)
	}
}

func TestATermThatEndedAppliesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fence{}
		r := run(t, newAPI(t), f)
		defer r.stop()
		r.deploy(site(t, "a"), 1)
		time.Sleep(time.Second)
		f.set(func(f *fence) { f.endAt = 1 })
		r.api.took()
		r.Pods(fleet("pod-1"))
		r.PodStatus(statusFor(site(t, "a"), "pod-1"), nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, q := range r.api.took() {
			if q.writes() {
				t.Errorf("wrote %+v", q)
			}
		}
	})
}

func names(entries []v1alpha1.PodDeploymentStatus) []string {
	var found []string
	for _, entry := range entries {
		found = append(found, entry.PodName)
	}
	slices.Sort(found)
	return found
}

// wantEntries requires exactly these pods on the ordinary output and its map.
func wantEntries(t *testing.T, api *server, pods ...string) {
	t.Helper()
	cfg := read[v1alpha1.HAProxyCfg](api, ordinaryKey)
	if diff := cmp.Diff(pods, names(cfg.Status.DeployedToPods)); diff != "" {
		t.Errorf("entries on the output (-want +got):\n%s", diff)
	}
	o := read[v1alpha1.HAProxyMapFile](api, mapOf(api))
	if diff := cmp.Diff(pods, names(o.Status.DeployedToPods)); diff != "" {
		t.Errorf("entries on %s (-want +got):\n%s", o.Name, diff)
	}
	for _, entry := range o.Status.DeployedToPods {
		if entry.Checksum != o.Spec.Checksum || entry.Mode != "" {
			t.Errorf("entry on a file = %+v", entry)
		}
	}
}
