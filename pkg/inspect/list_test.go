package inspect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// withViews puts the views of an export beside its stored objects, as an aggregated
// API would serve them.
func withViews(t *testing.T, e *export) []runtime.Object {
	t.Helper()
	objects := e.stored()
	report := mustVerify(t, e.yaml(t))
	for i := range report.Checkpoints {
		v := report.Checkpoints[i].View.DeepCopy()
		v.SetGroupVersionKind(views.SchemeGroupVersion.WithKind("RetainedCheckpoint"))
		v.Status.PlanID = "told-by-the-api"
		objects = append(objects, v)
	}
	return objects
}

func TestListAsksTheAggregatedAPIAndReadsForItselfWhereThatIsDown(t *testing.T) {
	tests := []struct {
		name   string
		code   int
		stored bool
		fails  string
	}{
		{name: "it answers"},
		{name: "its server does not answer", code: http.StatusServiceUnavailable, stored: true},
		{name: "it is not installed", code: http.StatusNotFound, stored: true},
		{name: "it is broken", code: http.StatusInternalServerError, stored: true},
		{name: "it refuses", code: http.StatusForbidden, fails: "listing retainedcheckpoints: said by the server"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newExport(t)
			s := &viewServer{apiServer: apiServer{t: t, objects: e.stored(), refused: map[string]int{}}, views: withViews(t, e), code: tc.code}
			listing, err := clusterOf(t, s, namespace).List(t.Context())
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("the answer is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if (listing.Unserved != nil) != tc.stored || len(listing.Report.Checkpoints) != 2 {
				t.Fatalf("%d checkpoints, not served: %v", len(listing.Report.Checkpoints), listing.Unserved)
			}
			if told := listing.Report.Checkpoints[0].View.Status.PlanID == "told-by-the-api"; told == tc.stored {
				t.Errorf("told by the API: %t", told)
			}
			if tc.stored == (len(s.asked) == 0) {
				t.Errorf("asked of the stored objects: %v", s.asked)
			}
		})
	}
}

// viewServer is an API server with an aggregated API that may be down.
type viewServer struct {
	apiServer
	views []runtime.Object
	code  int
}

func (s *viewServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.URL.Path, views.GroupName) {
		s.apiServer.ServeHTTP(w, r)
		return
	}
	if s.code != 0 {
		s.status(w, s.code)
		return
	}
	list := &views.RetainedCheckpointList{TypeMeta: metav1.TypeMeta{APIVersion: views.SchemeGroupVersion.String(), Kind: "RetainedCheckpointList"}}
	for _, o := range s.views {
		if v, ok := o.(*views.RetainedCheckpoint); ok {
			list.Items = append(list.Items, *v)
		}
	}
	s.write(w, http.StatusOK, list)
}

func TestListFormats(t *testing.T) {
	report := mustVerify(t, newExport(t).yaml(t))
	newest := ""
	for i := range report.Checkpoints {
		newest = report.Checkpoints[i].View.Name
	}
	tests := []struct {
		format      string
		says, lacks []string
	}{
		{"table", []string{"NAMESPACE   NAME ", "TEMPLATE   CHECKSUM", "RECOVERABLE   AGE", newest}, []string{"EVIDENCE", "INTENDED"}},
		{"wide", []string{"EVIDENCE", "ARTIFACTS   REASON", "7/7", "Verified"}, nil},
		{"name", []string{"retainedcheckpoint.retained.haproxy-haptic.org/" + newest + "\n"}, []string{"deploymentintent"}},
		{"json", []string{`"kind": "RetainedCheckpoint"`}, []string{"DeploymentIntent"}},
		{"yaml", []string{"kind: RetainedCheckpoint"}, []string{"DeploymentIntent"}},
	}
	for _, tc := range tests {
		t.Run(tc.format, func(t *testing.T) {
			var out, errOut bytes.Buffer
			p := Printer{Out: &out, ErrOut: &errOut, Format: tc.format}
			if err := p.PrintList(report, true); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
			for _, no := range tc.lacks {
				if strings.Contains(out.String(), no) {
					t.Errorf("has %q:\n%s", no, out.String())
				}
			}
			if tc.format == "json" && !json.Valid(out.Bytes()) {
				t.Error("no JSON")
			}
		})
	}
}
