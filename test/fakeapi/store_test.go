package fakeapi

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

func TestObserversSeeEveryChangeInOrder(t *testing.T) {
	s := New(Options{})
	core, _ := clientsOf(t, s, "one")
	other, _ := clientsOf(t, s, "other")
	var seen []string
	versionOf := func(o map[string]any) string {
		if o == nil {
			return ""
		}
		return o["metadata"].(map[string]any)["resourceVersion"].(string)
	}
	s.Observe(func(c Change) {
		seen = append(seen, fmt.Sprintf("%s %s %s/%s by %s: %s to %s", c.Type, c.GVR.Resource, c.Namespace, c.Name, c.Client, versionOf(c.Old), versionOf(c.New)))
	})
	made, err := core.CoordinationV1().Leases(ns).Create(t.Context(), lease("l"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holder := "other"
	made.Spec.HolderIdentity = &holder
	if _, err := other.CoordinationV1().Leases(ns).Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.CoordinationV1().Leases(ns).Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("a stale update: %v", err)
	}
	if err := core.CoordinationV1().Leases(ns).Delete(t.Context(), "l", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ADDED leases edge/l by one:  to 1001",
		"MODIFIED leases edge/l by other: 1001 to 1002",
		"DELETED leases edge/l by one: 1002 to 1003",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	var requests []string
	for _, r := range s.Requests() {
		if r.Object != nil {
			t.Errorf("the body of %s is kept", r.Verb)
		}
		requests = append(requests, fmt.Sprintf("%s %s %s %d", r.Client, r.Verb, r.Name, r.Code))
	}
	if diff := cmp.Diff([]string{"one create l 201", "other update l 200", "other update l 409", "one delete l 200"}, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if s.ResetRequests(); len(s.Requests()) != 0 {
		t.Error("requests stay after a reset")
	}
}

func ownedBy(owner *v1alpha1.HAProxyCfg, name string) *v1alpha1.HAProxyCfg {
	owned := output(name)
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyCfg", Name: owner.Name, UID: owner.UID}}
	return owned
}

func TestAutomaticCollectionFollowsChainsAndMindsFinalizers(t *testing.T) {
	s := New(Options{AutoGC: true})
	_, ours := clientsOf(t, s, Admin)
	outputs := ours.HapticV1alpha1().HAProxyCfgs(ns)
	create := func(o *v1alpha1.HAProxyCfg) *v1alpha1.HAProxyCfg {
		made, err := outputs.Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	root := create(output("root"))
	child := create(ownedBy(root, "child"))
	create(ownedBy(child, "grandchild"))
	held := ownedBy(root, "held")
	held.Finalizers = []string{"example.com/hold"}
	create(held)
	foreign := output("foreign")
	foreign.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "gone"}}
	create(foreign)
	if err := outputs.Delete(t.Context(), "root", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, o := range s.Objects("haproxycfgs") {
		metadata := o["metadata"].(map[string]any)
		left = append(left, fmt.Sprint(metadata["name"], " ends: ", metadata["deletionTimestamp"] != nil))
	}
	if diff := cmp.Diff([]string{"foreign ends: false", "held ends: true"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestTrackingFromTheFirstApplyKeepsAppliersApart(t *testing.T) {
	s := New(Options{TrackFromApply: true})
	_, ours := clientsOf(t, s, Admin)
	outputs := ours.HapticV1alpha1().HAProxyCfgs(ns)
	made, err := outputs.Create(t.Context(), output("o"), metav1.CreateOptions{})
	if err != nil || made.ManagedFields != nil {
		t.Fatalf("managedFields %v after a creation: %v", made.ManagedFields, err)
	}
	apply := func(manager, body string) *v1alpha1.HAProxyCfg {
		t.Helper()
		applied, err := outputs.Patch(t.Context(), "o", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: manager}, "status")
		if err != nil {
			t.Fatal(err)
		}
		return applied
	}
	const entry = `{"apiVersion":"haproxy-haptic.org/v1alpha1","kind":"HAProxyCfg","metadata":{"name":"o"},"status":{"deployedToPods":[{"podName":%q}]}}`
	apply("pod-1", fmt.Sprintf(entry, "p1"))
	if two := apply("pod-2", fmt.Sprintf(entry, "p2")); len(two.Status.DeployedToPods) != 2 {
		t.Errorf("entries of two pods: %v", two.Status.DeployedToPods)
	}
	gone := apply("pod-1", `{"apiVersion":"haproxy-haptic.org/v1alpha1","kind":"HAProxyCfg","metadata":{"name":"o"}}`)
	if len(gone.Status.DeployedToPods) != 1 || gone.Status.DeployedToPods[0].PodName != "p2" {
		t.Errorf("entries after one was removed: %v", gone.Status.DeployedToPods)
	}
}

func TestWhatIsNotServedIsRefusedLoudly(t *testing.T) {
	s := New(Options{})
	core, _ := clientsOf(t, s, Admin)
	leases := core.CoordinationV1().Leases(ns)
	foreground := metav1.DeletePropagationForeground
	refusals := map[string]func() error{
		"a dry run": func() error {
			_, err := leases.Create(t.Context(), lease("l"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
		"strict validation": func() error {
			_, err := leases.Create(t.Context(), lease("l"), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		},
		"foreground deletion": func() error {
			return leases.Delete(t.Context(), "l", metav1.DeleteOptions{PropagationPolicy: &foreground})
		},
		"a continued list": func() error {
			_, err := leases.List(t.Context(), metav1.ListOptions{Continue: "token"})
			return err
		},
		"deletion of a collection": func() error {
			return leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		},
	}
	for name, refused := range refusals {
		t.Run(name, func(t *testing.T) {
			status, err := apierrors.APIStatus(nil), refused()
			if !errors.As(err, &status) {
				t.Fatalf("got %v", err)
			}
			if code := status.Status().Code; code != http.StatusNotImplemented && code != http.StatusMethodNotAllowed {
				t.Errorf("code %d: %v", code, err)
			}
		})
	}
	if n := len(s.Objects("leases")); n != 0 {
		t.Errorf("%d Leases were made", n)
	}
}
