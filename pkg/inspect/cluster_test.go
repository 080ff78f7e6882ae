package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// apiServer answers lists and gets from an export, in pages of two, honours
// label selectors, and refuses what it is told to.
type apiServer struct {
	t *testing.T

	mu      sync.Mutex
	objects []runtime.Object
	// refused maps "verb resource" to a status code.
	refused map[string]int
	// asked are the requests, as "verb resource".
	asked []string
	// before runs ahead of each request.
	before func(request string)
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	i := slices.Index(parts, "namespaces")
	inNamespace, resource, name := "", parts[len(parts)-1], ""
	if i >= 0 {
		inNamespace, resource = parts[i+1], parts[i+2]
		if len(parts) > i+3 {
			name = parts[i+3]
		}
	}
	request := "list " + resource
	if name != "" {
		request = "get " + resource
	}
	if s.before != nil {
		s.before(request)
	}
	s.asked = append(s.asked, request)
	if r.Method != http.MethodGet {
		s.t.Errorf("a %s request was sent", r.Method)
	}
	if code := s.refused[request]; code != 0 {
		s.status(w, code)
		return
	}
	s.answer(w, r, inNamespace, resource, name)
}

func (s *apiServer) status(w http.ResponseWriter, code int) {
	reason := map[int]metav1.StatusReason{
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}[code]
	s.write(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "said by the server",
	})
}

func (s *apiServer) write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		s.t.Errorf("answering: %v", err)
	}
}

func (s *apiServer) answer(w http.ResponseWriter, r *http.Request, inNamespace, resource, name string) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		s.t.Errorf("label selector: %v", err)
	}
	var items []any
	kind := ""
	for _, candidate := range resources {
		if candidate.resource == resource {
			kind = candidate.kind
		}
	}
	for _, o := range s.objects {
		meta := o.(metav1.Object)
		if o.GetObjectKind().GroupVersionKind().Kind != kind || inNamespace != "" && meta.GetNamespace() != inNamespace {
			continue
		}
		if name != "" && meta.GetName() == name {
			s.write(w, http.StatusOK, o)
			return
		}
		if name == "" && selector.Matches(labels.Set(meta.GetLabels())) {
			items = append(items, o)
		}
	}
	if name != "" {
		s.status(w, http.StatusNotFound)
		return
	}
	start, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	end, next := min(start+2, len(items)), ""
	if end < len(items) {
		next = fmt.Sprint(end)
	}
	apiVersion := map[string]string{"Secret": "v1", KindPod: "v1", KindNode: "v1", KindLease: "coordination.k8s.io/v1"}[kind]
	if apiVersion == "" {
		apiVersion = v1alpha1.SchemeGroupVersion.String()
	}
	s.write(w, http.StatusOK, map[string]any{
		"apiVersion": apiVersion, "kind": kind + "List", "metadata": metav1.ListMeta{ResourceVersion: "9", Continue: next},
		"items": items[start:end],
	})
}

func verifyCluster(t *testing.T, server *apiServer, inNamespace string) (*Report, error) {
	t.Helper()
	server.t = t
	return clusterOf(t, server, inNamespace).Verify(t.Context())
}

func clusterOf(t *testing.T, server http.Handler, inNamespace string) *Cluster {
	t.Helper()
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	cluster, err := NewCluster(&rest.Config{Host: listener.URL}, inNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

func TestAClusterGivesTheReportOfItsExport(t *testing.T) {
	e := newExport(t)
	e.others = nil
	fromFiles := mustVerify(t, e.yaml(t))
	for _, inNamespace := range []string{"", namespace} {
		fromCluster, err := verifyCluster(t, &apiServer{objects: e.stored()}, inNamespace)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromFiles, fromCluster); diff != "" {
			t.Errorf("in namespace %q (-files +cluster):\n%s", inNamespace, diff)
		}
	}
}

func TestOutcomesOfClusters(t *testing.T) {
	const forbidden = http.StatusForbidden
	tests := []struct {
		name    string
		edit    func(*export)
		refused map[string]int
		want    Outcome
		said    []string
	}{
		{name: "everything is there", want: Sound},
		{name: "a checkpoint is gone", edit: func(e *export) { e.newest = nil }, want: Damaged, said: []string{"Damaged CheckpointMissing"}},
		{name: "all checkpoints are gone", edit: func(e *export) { e.newest, e.predecessor = nil, nil }, want: Damaged, said: []string{"Damaged CheckpointMissing"}},
		{name: "all secrets are gone", edit: func(e *export) { e.secrets = nil }, want: Damaged, said: []string{"Damaged ChildMissing"}},
		{name: "a secret is empty", edit: func(e *export) { e.secrets[0].Data = nil }, want: Damaged, said: []string{
			"Damaged ChecksumMismatch", "Damaged PlanDigestMismatch", "Damaged SecretMalformed",
		}},
		{name: "a secret without its label is read by name", edit: func(e *export) { e.secrets[0].Labels = nil }, want: Damaged, said: []string{"Damaged SecretMalformed"}},
		{name: "the template is gone", edit: func(e *export) { e.template = nil }, want: Sound},
		{name: "the ordinary output is gone", edit: func(e *export) { e.ordinary = nil }, want: Sound},
		{name: "nothing is installed", edit: func(e *export) { *e = export{} }, refused: map[string]int{
			"list haproxycfgs": http.StatusNotFound, "list haproxytemplateconfigs": http.StatusNotFound,
		}, want: Unjudged, said: []string{"Unknown NothingFound"}},
		{name: "secrets cannot be listed", refused: map[string]int{"list secrets": forbidden}, want: Sound},
		{name: "secrets cannot be read", refused: map[string]int{"list secrets": forbidden, "get secrets": forbidden}, want: Unjudged, said: []string{"Unknown NotPermitted"}},
		{name: "maps cannot be read", refused: map[string]int{"list haproxymapfiles": forbidden, "get haproxymapfiles": forbidden}, want: Unjudged, said: []string{"Unknown NotPermitted"}},
		{name: "leases cannot be read", refused: map[string]int{"list leases": forbidden}, want: Sound},
		{name: "templates cannot be read", refused: map[string]int{"list haproxytemplateconfigs": forbidden}, want: Unjudged, said: []string{"Unknown NotPermitted"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newExport(t)
			e.others = nil
			if tc.edit != nil {
				tc.edit(e)
			}
			report, err := verifyCluster(t, &apiServer{objects: e.stored(), refused: tc.refused}, namespace)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.said, said(report)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if got := report.Outcome(); got != tc.want {
				t.Errorf("Outcome() = %d, want %d", got, tc.want)
			}
			mustNotLeak(t, report)
		})
	}
}

func TestClustersThatCannotBeRead(t *testing.T) {
	for request, code := range map[string]int{
		"list haproxycfgs": http.StatusForbidden,
		"list secrets":     http.StatusInternalServerError,
	} {
		e := newExport(t)
		_, err := verifyCluster(t, &apiServer{objects: e.stored(), refused: map[string]int{request: code}}, namespace)
		if err == nil || !strings.Contains(err.Error(), "said by the server") {
			t.Errorf("%d for %s: error %v, want what the server said", code, request, err)
		}
	}
}

// TestDamageIsReadTwice lets a collection pass between two lists.
func TestDamageIsReadTwice(t *testing.T) {
	e := newExport(t)
	e.others = nil
	whole := e.stored()
	e.crtLists = nil
	e.ordinary.Status.RetainedConfigs = nil
	e.newest, e.predecessor = nil, nil
	server := &apiServer{objects: whole}
	server.before = func(request string) {
		if request == "list haproxymapfiles" {
			server.objects = e.stored()
		}
	}
	report, err := verifyCluster(t, server, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Outcome(); got != Sound {
		t.Errorf("Outcome() = %d, findings %v", got, said(report))
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	again := 0
	for _, request := range server.asked {
		if request == "list leases" {
			again++
		}
	}
	if again != 2 {
		t.Errorf("leases were listed %d times, want twice", again)
	}
}
