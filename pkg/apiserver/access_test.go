package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

func TestAnonymousMayOnlyAskForHealth(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/healthz": 200, "/readyz/views": 200,
		rckpts: 401, "/metrics": 401, "/apis": 401, "/openapi/v2": 401, "/version": 401, "/healthzy": 401,
	} {
		if code, _, body := s.get("", path, ""); code != want {
			t.Errorf("%s: code %d, want %d: %.200s", path, code, want, body)
		}
	}
	for _, path := range []string{rckpts, rckpts + "?watch=true", rckpts + "/x", rckpts + "/x/config", "/metrics"} {
		if code, _, _ := s.get("nobody", path, ""); code != http.StatusForbidden {
			t.Errorf("%s without rights: code %d, want 403", path, code)
		}
	}
}

func TestConfigServesVerifiedTextOnly(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.views.Checkpoints.Set(newCheckpoint("x", metav1.ConditionTrue))
	s.views.Checkpoints.Set(newCheckpoint("changed", metav1.ConditionTrue))
	s.views.Checkpoints.Set(newCheckpoint("damaged", metav1.ConditionFalse))
	s.feed.texts = map[string]string{"x": "global\n", "changed": "evil\n", "damaged": "global\n", "HAProxyMapFile/hosts": "a b\n", "Secret/web": "KEY"}
	tests := []struct {
		name, path string
		code       int
		want       string
	}{
		{"the configuration", "/x/config", 200, "global\n"},
		{"a map", "/x/config?path=maps/hosts.map", 200, "a b\n"},
		{"text that changed since it was verified", "/changed/config", 409, "changed while it was read"},
		{"the configuration of a damaged checkpoint", "/damaged/config", 409, "of a test"},
		{"a damaged file", "/x/config?path=files/503.http", 409, "it is damaged"},
		{"a certificate", "/x/config?path=ssl/web.pem", 403, "never served"},
		{"a file that is not there", "/x/config?path=/etc/passwd", 404, "not found"},
		{"a checkpoint that is not there", "/y/config", 404, "retainedcheckpoints"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, contentType, body := s.get("tester", rckpts+tc.path, "")
			if code != tc.code || !strings.Contains(body, tc.want) || strings.Contains(body, "KEY") {
				t.Errorf("code %d, want %d: %s", code, tc.code, body)
			}
			if tc.code == 200 && (body != tc.want || !strings.HasPrefix(contentType, "text/plain")) {
				t.Errorf("%s: %q", contentType, body)
			}
		})
	}
}

func TestOpenAPIDescribesOurKinds(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	_, _, v2 := s.get("tester", "/openapi/v2", "application/json")
	_, _, v3 := s.get("tester", "/openapi/v3"+groupPath, "application/json")
	for _, document := range []string{v2, v3} {
		mustContain(t, document,
			"org.haproxy-haptic.retained.v1alpha1.RetainedCheckpointStatus",
			"path of the auxiliary file to return instead of the configuration",
			`"x-kubernetes-group-version-kind":[{"group":"retained.haproxy-haptic.org","kind":"DeploymentIntent","version":"v1alpha1"}]`)
	}
	var parsed struct {
		Definitions map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal([]byte(v2), &parsed); err != nil {
		t.Fatal(err)
	}
	for name, definition := range parsed.Definitions {
		if !strings.HasPrefix(name, "org.haproxy-haptic.") {
			continue
		}
		for field, property := range definition.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
}

func TestRow18NothingCanBeWritten(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.views.Checkpoints.Set(newCheckpoint("x", metav1.ConditionTrue))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{rckpts, rckpts + "/x", rckpts + "/x/config"} {
			if code, _, body := s.do(method, "tester", path, ""); code != http.StatusMethodNotAllowed && code != http.StatusNotFound {
				t.Errorf("%s %s: code %d: %.200s", method, path, code, body)
			}
		}
	}
	resources, err := s.client.Discovery().ServerResourcesForGroupVersion(schema.GroupVersion(views.SchemeGroupVersion).String())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range resources.APIResources {
		got[r.Name] = fmt.Sprintf("%s %q %v %v %v %v", r.Kind, r.SingularName, r.ShortNames, r.Verbs, r.Categories, r.Namespaced)
	}
	want := map[string]string{
		"retainedcheckpoints":        `RetainedCheckpoint "retainedcheckpoint" [rckpt] [get list watch] [] true`,
		"retainedcheckpoints/config": `RetainedCheckpoint "" [] [get] [] true`,
		"deploymentintents":          `DeploymentIntent "deploymentintent" [dintent] [get list watch] [] true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("discovery (-want +got):\n%s", diff)
	}
}
