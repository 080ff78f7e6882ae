package aggregation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// doomed is a namespace that is deleted with what is in it.
const doomed = "doomed"

// TestP8ANamespaceWithCheckpointsIsDeletedWhileTheyAreServed: what the control
// plane's own clients ask in the course of it, they are answered.
func TestP8ANamespaceWithCheckpointsIsDeletedWhileTheyAreServed(t *testing.T) {
	s := serve(t, "")
	namespaces := core(t).CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomed}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stored(t).HAProxyCfgs(doomed).Create(t.Context(), orphan("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the checkpoint is shown", settle, s.shows(doomed, "kept"))
	if err := namespaces.Delete(t.Context(), doomed, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, "the namespace is gone", settle, gone(t, doomed))
	fmt.Printf("P8: a namespace with a checkpoint was gone after %.1f s\n", took.Seconds())
}
