package publish

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// etcdLimit is what etcd takes of a request by default.
const etcdLimit = 1536 << 10

// manyPods are named as a Deployment names them, with UIDs of full length.
func manyPods(n int) (names []string, living map[string]string) {
	living = map[string]string{}
	for i := range n {
		name := fmt.Sprintf("edge-haproxy-5d8f9c7b6d-%05d", i)
		names = append(names, name)
		living[name] = fmt.Sprintf("7b0f4f46-5d7c-4a2c-9c62-3e8a5d1%05d", i)
	}
	return names, living
}

func fullStatus(o *checkpoint.Output, pod, uid string) v1alpha1.PodDeploymentStatus {
	entry := statusFor(o, pod)
	entry.PodUID, entry.PodRuntimeID, entry.WorkerOpsPlanID = uid, "1767225600000000-42", entry.RunningPlanID
	return entry
}

func storedBytes(t *testing.T, api *server, key objectKey) int {
	t.Helper()
	raw, err := json.Marshal(api.stored(key))
	must(t, err)
	return len(raw)
}

// TestP17cdeThreeHundredPodsAcknowledgeOneCheckpoint: each pod adds the same number of bytes, so
// eight are served and the size of three hundred is reckoned: the applies of a
// fleet cost the server the square of its size, and this test a minute.
func TestP17cdeThreeHundredPodsAcknowledgeOneCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pods, served = 300, 8
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		o := output(t, "global\n"+noise(64<<10), map[string]string{"maps/hosts.map": noise(64 << 10)})
		names, living := manyPods(pods)
		r.Pods(living)
		r.Accepted(o, 1)
		for _, pod := range names {
			r.Deployed(o, 1, entryFor(o, pod))
		}
		time.Sleep(time.Second)
		mapKey := mapOf(api)
		empty := map[objectKey]int{ordinaryKey: storedBytes(t, api, ordinaryKey), mapKey: storedBytes(t, api, mapKey)}
		for _, pod := range names[:served] {
			r.PodStatus(fullStatus(o, pod, living[pod]), o)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantEntries(t, api, names[:served]...)
		for _, key := range []objectKey{ordinaryKey, mapKey, checkpointKey(t, api, 0), sharedMap(t, api)} {
			size := storedBytes(t, api, key)
			if was, carries := empty[key]; carries {
				perPod := (size - was + served - 1) / served
				size = was + pods*perPod
				t.Logf("%s: %d bytes a pod, %d bytes with %d pods", key.kind, perPod, size, pods)
				if bound := entryBytes(fullStatus(o, names[0], living[names[0]])); perPod > bound {
					t.Errorf("%s: %d bytes a pod, reckoned with %d", key.kind, perPod, bound)
				}
			}
			if size >= etcdLimit/2 {
				t.Errorf("%s %s takes %d bytes, want under half of %d", key.kind, key.name, size, etcdLimit)
			}
		}
		if list, err := json.Marshal(read[v1alpha1.HAProxyCfg](api, ordinaryKey).Status.RetainedConfigs); err != nil || len(list) > 4000 {
			t.Errorf("the pointer list takes %d bytes, error %v", len(list), err)
		}
		if got := valueOf(t, r.metrics.LargestObject); got < 64<<10 || valueOf(t, r.metrics.ObjectLimit) <= got {
			t.Errorf("largest object %v of %v", got, valueOf(t, r.metrics.ObjectLimit))
		}

		r.Pods(map[string]string{names[7]: living[names[7]]})
		time.Sleep(time.Minute)
		synctest.Wait()
		wantEntries(t, api, names[7])
		for key, was := range empty {
			if left := storedBytes(t, api, key) - was; left > 2000 {
				t.Errorf("%s takes %d bytes more than without pods", key.kind, left)
			}
		}
	})
}

// A fleet may be larger than what an output leaves room for. Then entries are
// left out, for a full object could not be changed any more.
func TestEntriesNeverFillAnObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		r := run(t, api, &fence{})
		defer r.stop()
		o := site(t, "a")
		names, living := manyPods(15)
		r.Pods(living)
		r.deploy(o, 1)
		time.Sleep(time.Second)
		r.Publisher.statuses.room = 5 * entryBytes(fullStatus(o, names[0], living[names[0]]))
		for _, pod := range names {
			r.PodStatus(fullStatus(o, pod, living[pod]), o)
		}
		synctest.Wait()
		shown := func() []string { return podsOf(read[v1alpha1.HAProxyCfg](api, ordinaryKey)) }
		if diff := cmp.Diff(names[:5], shown()); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		if hidden := valueOf(t, r.metrics.HiddenPods); hidden != 10 {
			t.Errorf("%v pods are without an entry, want 10", hidden)
		}
		// The first five end, and the next five get their places.
		for _, pod := range names[:5] {
			delete(living, pod)
		}
		r.Pods(living)
		for _, pod := range names[5:] {
			r.PodStatus(fullStatus(o, pod, living[pod]), o)
		}
		synctest.Wait()
		if diff := cmp.Diff(names[5:10], shown()); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

func podsOf(cfg *v1alpha1.HAProxyCfg) []string { return names(cfg.Status.DeployedToPods) }

func TestEveryOutputThatIsLetThroughHasRoomForThreeHundredPods(t *testing.T) {
	t.Parallel()
	entry := fullStatus(site(t, "a"), strings.Repeat("n", 63), strings.Repeat("u", 36))
	if size := 300 * entryBytes(entry); size > fleetRoom {
		t.Errorf("300 pods take %d bytes, room is %d", size, fleetRoom)
	}
	for _, tc := range []struct {
		name string
		o    *checkpoint.Output
	}{
		{name: "a large configuration", o: output(t, "global\n"+noise(1200*1000), nil)},
		{name: "a large file", o: output(t, "global\n", map[string]string{"files/a.http": noise(1200 * 1000)})},
		{name: "a Secret, which carries no entries", o: output(t, "global\n", map[string]string{"ssl/a.pem": noise(1000 * 1000)})},
	} {
		e, err := encode(tc.o, defaultThreshold)
		must(t, err)
		if _, err := e.largest(testSettings().Template); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if e.entryRoom < fleetRoom {
			t.Errorf("%s leaves %d bytes for entries, want %d", tc.name, e.entryRoom, fleetRoom)
		}
	}
}
