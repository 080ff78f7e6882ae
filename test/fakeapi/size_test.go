package fakeapi

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// P17: one field manager a pod is stored too, so an output grows with the
// fleet. On the real server 300 pods took about 490 bytes each, of which 300
// were managedFields.
func TestAPodsEntryWeighsWhatItDoesOnTheRealServer(t *testing.T) {
	const pods = 60
	s := New(Options{})
	_, ours := clientsOf(t, s, Admin)
	outputs := ours.HapticV1alpha1().HAProxyCfgs(ns)
	if _, err := outputs.Create(t.Context(), output("o"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		pod := fmt.Sprintf("holdfast-proxy-%04d", i)
		body := fmt.Sprintf(`{"apiVersion":"haproxy-haptic.org/v1alpha1","kind":"HAProxyCfg","metadata":{"name":"o"},
			"status":{"deployedToPods":[{"podName":%q,"podUID":"00000000-0000-4000-8000-%012x","checksum":"0011223344556677"}]}}`, pod, i)
		_, err := outputs.Patch(t.Context(), "o", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "holdfast-" + pod, Force: new(true)}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	stored := s.Objects("haproxycfgs")[0]
	managed := len(mustEncode(stored["metadata"].(map[string]any)["managedFields"])) / pods
	if all := len(mustEncode(stored)) / pods; managed < 250 || managed > 400 || all > 600 {
		t.Errorf("a pod takes %d bytes, of which %d are managedFields", all, managed)
	}
}
