package acceptance

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// criticalSource is the input without which nothing can be rendered.
type criticalSource interface {
	// block makes every render fail from now on.
	block()
	// repair makes renders succeed again.
	repair()
	// cause is what the render error says while blocked.
	cause() string
}

// configMapSource is a value that makes the template fail.
type configMapSource struct{ *stage }

func (c configMapSource) block()        { c.setInput("source", c.cause()) }
func (c configMapSource) repair()       { c.setInput("source", "ok") }
func (c configMapSource) cause() string { return "the source is unreachable" }

// setInput changes what the template reads.
func (s *stage) setInput(key, value string) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{key: value}})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.core.CoreV1().ConfigMaps(s.namespace).Patch(s.t.Context(), "inputs", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
