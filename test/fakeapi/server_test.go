package fakeapi

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/generated/informers/externalversions"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const ns = "edge"

func clientsOf(t testing.TB, s *Server, client string) (*kubernetes.Clientset, *versioned.Clientset) {
	t.Helper()
	core, err := kubernetes.NewForConfig(s.Config(client))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := versioned.NewForConfig(s.Config(client))
	if err != nil {
		t.Fatal(err)
	}
	return core, ours
}

func lease(name string) *coordinationv1.Lease {
	holder, seconds, renewed := "one", int32(15), metav1.NewMicroTime(time.Unix(1700000000, 0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}

func output(name string) *v1alpha1.HAProxyCfg {
	return &v1alpha1.HAProxyCfg{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
		Spec:       v1alpha1.HAProxyCfgSpec{Path: "/etc/haproxy.cfg", Content: "global", Checksum: "00"},
	}
}

func TestInformersSeeChangesInABubbleAndLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		_, ours := clientsOf(t, s, "one")
		outputs := ours.HapticV1alpha1().HAProxyCfgs(ns)
		if _, err := outputs.Create(t.Context(), output("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		factory := externalversions.NewSharedInformerFactory(ours, 0)
		var seen []string
		note := func(what string) func(any) {
			return func(o any) { seen = append(seen, what+" "+o.(*v1alpha1.HAProxyCfg).Name) }
		}
		informer := factory.Haptic().V1alpha1().HAProxyCfgs().Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: note("add"), DeleteFunc: note("delete"),
			UpdateFunc: func(_, o any) { note("update")(o) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		factory.WaitForCacheSyncWithContext(ctx)
		made, err := outputs.Create(ctx, output("b"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Spec.Content = "defaults"
		if made, err = outputs.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(2 * time.Hour)
		if err := outputs.Delete(ctx, "b", *metav1.NewPreconditionDeleteOptions(string(made.UID))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		factory.Shutdown()
		if diff := cmp.Diff([]string{"add a", "add b", "update b", "delete b"}, seen); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if made.Generation != 2 {
			t.Errorf("generation %d after a change of spec, want 2", made.Generation)
		}
	})
}

func TestHooksParkLoseAndBreakOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		core, _ := clientsOf(t, s, "one")
		leases := core.CoordinationV1().Leases(ns)
		lost := errors.New("lost")
		s.Hooks(Hooks{Before: func(ctx context.Context, c Call) error {
			if c.Name == "parked" {
				<-ctx.Done()
				return ctx.Err()
			}
			if c.Verb == "delete" {
				return apierrors.NewTooManyRequestsError("later")
			}
			return nil
		}, After: func(_ context.Context, c Call, code int) error {
			if c.Verb == "create" && code == 201 {
				return lost
			}
			return nil
		}})
		if _, err := leases.Create(t.Context(), lease("l"), metav1.CreateOptions{}); !errors.Is(err, lost) {
			t.Errorf("creation whose reply is lost: %v", err)
		}
		found, err := leases.Get(t.Context(), "l", metav1.GetOptions{})
		if err != nil || found.UID == "" {
			t.Errorf("a lost reply lost the write: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := leases.Get(ctx, "parked", metav1.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("parked request: %v", err)
		}
		var codes []int
		for _, r := range s.Requests() {
			codes = append(codes, r.Code)
		}
		if diff := cmp.Diff([]int{201, 200}, codes); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
	})
}

func TestOneCollectionTakesWhatLostAllItsOwners(t *testing.T) {
	s := New(Options{})
	_, ours := clientsOf(t, s, Admin)
	outputs := ours.HapticV1alpha1().HAProxyCfgs(ns)
	owner, err := outputs.Create(t.Context(), output("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := output("owned")
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyCfg", Name: "owner", UID: owner.UID,
	}}
	if _, err := outputs.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := s.CollectGarbage(); n != 0 {
		t.Errorf("collected %d beside a living owner", n)
	}
	if err := outputs.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, left := s.CollectGarbage(), len(s.Objects("haproxycfgs")); n != 1 || left != 0 {
		t.Errorf("collected %d, left %d; want 1 and 0", n, left)
	}
}

func TestClientsOfAllKindsFindTheirWayInABubble(t *testing.T) {
	synctest.Test(t, findTheWay)
}

func findTheWay(t *testing.T) {
	s := New(Options{})
	core, _ := clientsOf(t, s, "one")
	list, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config("one")).ServerResourcesForGroupVersion("haproxy-haptic.org/v1alpha1")
	if err != nil || len(list.APIResources) != 10 {
		t.Errorf("discovery found %v: %v", list, err)
	}
	if _, _, err := core.Discovery().ServerGroupsAndResources(); err != nil {
		t.Error(err)
	}
	dynamics := dynamic.NewForConfigOrDie(s.Config("one"))
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if _, err := dynamics.Resource(pods).Namespace(ns).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	made, err := core.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	if made, err = core.CoreV1().Pods(ns).Patch(t.Context(), made.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil || made.Labels["a"] != "b" {
		t.Errorf("patched pod %v: %v", made, err)
	}
}

func BenchmarkLeaseUpdate(b *testing.B) {
	b.Run("tracked", func(b *testing.B) { benchmarkLeaseUpdate(b, Options{}) })
	b.Run("tracked from apply", func(b *testing.B) { benchmarkLeaseUpdate(b, Options{TrackFromApply: true}) })
}

func benchmarkLeaseUpdate(b *testing.B, o Options) {
	s := New(o)
	core, _ := clientsOf(b, s, "one")
	leases := core.CoordinationV1().Leases(ns)
	current, err := leases.Create(b.Context(), lease("l"), metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer reportCPU(b)()
	for b.Loop() {
		renewed := metav1.NewMicroTime(current.Spec.RenewTime.Add(time.Second))
		current.Spec.RenewTime = &renewed
		if current, err = leases.Update(b.Context(), current, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOutputStatusUpdate(b *testing.B) {
	s := New(Options{TrackFromApply: true})
	_, ours := clientsOf(b, s, "one")
	outputs := ours.HapticV1alpha1().HAProxyCfgs(ns)
	current, err := outputs.Create(b.Context(), output("o"), metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer reportCPU(b)()
	for i := 0; b.Loop(); i++ {
		current.Status.AuxiliaryFiles = &v1alpha1.AuxiliaryFileReferences{SetID: strconv.Itoa(i)}
		if current, err = outputs.UpdateStatus(b.Context(), current, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLeaseGet(b *testing.B) {
	s := New(Options{})
	core, _ := clientsOf(b, s, "one")
	leases := core.CoordinationV1().Leases(ns)
	if _, err := leases.Create(b.Context(), lease("l"), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	defer reportCPU(b)()
	for b.Loop() {
		if _, err := leases.Get(b.Context(), "l", metav1.GetOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// reportCPU counts the process's own time, because this machine is shared.
func reportCPU(b *testing.B) func() {
	spent := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := spent()
	return func() { b.ReportMetric(float64((spent()-before).Microseconds())/float64(b.N), "cpu-us/op") }
}
