package controller

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

func TestHealthTellsAFailureWithoutFailing(t *testing.T) {
	h := newHealth()
	handler := h.handler(prometheus.NewRegistry())
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String()
	}
	h.set(componentStart, "the CRDs are missing")
	h.set(componentRender, "RenderFailed: line 3")
	for path, want := range map[string]int{"/livez": 200, "/readyz": 503, "/healthz": 200, "/metrics": 200} {
		if got, body := get(path); got != want {
			t.Errorf("GET %s = %d, want %d: %s", path, got, want, body)
		}
	}
	h.set(componentStart, "")
	h.setReady(true)
	if got, _ := get("/readyz"); got != 200 {
		t.Errorf("GET /readyz = %d after the start, want 200", got)
	}
	_, body := get("/healthz")
	want := `{
  "components": {
    "deployer": {
      "healthy": true
    },
    "leader-election": {
      "healthy": true
    },
    "reconciliation-coordinator": {
      "healthy": false,
      "error": "RenderFailed: line 3"
    },
    "recovery": {
      "healthy": true
    },
    "startup": {
      "healthy": true
    }
  }
}
`
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("GET /healthz (-want +got):\n%s", diff)
	}
}

func TestGateAndTemplatesAgreeOnTheEnvironment(t *testing.T) {
	names := map[string]bool{}
	for _, name := range render.Environment {
		names[name] = true
	}
	for name := range gate.Environment {
		if !names[name] {
			t.Errorf("the gate sets %s, which no template may read", name)
		}
		delete(names, name)
	}
	if len(names) > 0 {
		t.Errorf("templates may read %v, which the gate does not set", names)
	}
}
