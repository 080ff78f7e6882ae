package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-project/holdfast/generated/informers/externalversions"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// The numbers are those of the conformance table for virtual resources.

// TestRow01P4aEmptyListHasItemsAndVersion: a version of nothing is one all the same.
func TestRow01P4aEmptyListHasItemsAndVersion(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	code, _, body := s.get("tester", rckpts, "")
	if code != http.StatusOK {
		t.Fatalf("code %d: %s", code, body)
	}
	mustContain(t, body, `"items":[]`, `"resourceVersion":"1`)
}

func TestRow02SelectorsOverHTTP(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.views.Checkpoints.Set(newCheckpoint("sound", metav1.ConditionTrue))
	s.views.Checkpoints.Set(newCheckpoint("broken", metav1.ConditionFalse))
	tests := []struct {
		name, query string
		code        int
		want        []string
	}{
		{"all are sorted", "", 200, []string{"broken", "sound"}},
		{"by verdict", "?fieldSelector=status.verified%3DTrue", 200, []string{"sound"}},
		{"by recoverability and template", "?fieldSelector=status.recoverable%3DFalse,status.template.name%3Dweb", 200, []string{"broken"}},
		{"by name", "?fieldSelector=metadata.name%3Dsound", 200, []string{"sound"}},
		{"by label", "?labelSelector=haproxy-haptic.org/template-config%3Dother", 200, nil},
		{"by an unknown field", "?fieldSelector=status.planID%3Dx", 400, nil},
		{"a malformed version", "?resourceVersion=abc", 400, nil},
		{"a version from before this process", "?resourceVersion=1", 410, nil},
		{"a version from the future", "?resourceVersion=9999999999999999999", 504, nil},
		{"initial events on a list", "?sendInitialEvents=true", 422, nil},
		{"a continue token", "?continue=abc", 400, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, _, body := s.get("tester", rckpts+tc.query, "")
			if code != tc.code {
				t.Fatalf("code %d, want %d: %s", code, tc.code, body)
			}
			var list views.RetainedCheckpointList
			if err := json.Unmarshal([]byte(body), &list); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range list.Items {
				got = append(got, list.Items[i].Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

// streamed reads the first events of a watch as lines.
func (s *testServer) streamed(query, accept string, count int) []string {
	s.Helper()
	_, _, body := s.get("tester", rckpts+"?watch=true&timeoutSeconds=1&"+query, accept)
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) < count {
		s.Fatalf("%d lines, want %d:\n%s", len(lines), count, body)
	}
	return lines[:count]
}

const streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

func TestRow06And08InitialEventsOverHTTP(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	empty := s.streamed(streaming, "", 1)
	mustContain(t, empty[0], `"type":"BOOKMARK"`, `"k8s.io/initial-events-end":"true"`, `"kind":"RetainedCheckpoint"`)

	s.views.Checkpoints.Set(newCheckpoint("x", metav1.ConditionTrue))
	lines := s.streamed(streaming, "", 2)
	mustContain(t, lines[0], `"type":"ADDED"`, `"name":"x"`)
	mustContain(t, lines[1], `"type":"BOOKMARK"`, `"k8s.io/initial-events-end":"true"`)

	_, _, legacy := s.get("tester", rckpts+"?watch=true&timeoutSeconds=1", "")
	if strings.Count(legacy, "\n") != 1 || strings.Contains(legacy, "BOOKMARK") {
		t.Errorf("a legacy watch got:\n%s", legacy)
	}
	table := s.streamed(streaming, "application/json;as=Table;v=v1;g=meta.k8s.io", 2)
	mustContain(t, table[0], `"kind":"Table"`, `"columnDefinitions":[{`)
	mustContain(t, table[1], `"type":"BOOKMARK"`, `"k8s.io/initial-events-end":"true"`)
	partial := s.streamed(streaming, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 2)
	mustContain(t, partial[1], `"kind":"PartialObjectMetadata"`, `"k8s.io/initial-events-end":"true"`)
}

// TestRow05And07P4dVersionsOverHTTP: what a server cannot go on from it says at once,
// in the form that a built-in server has for it.
func TestRow05And07P4dVersionsOverHTTP(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	mustContain(t, s.streamed("resourceVersion=17", "", 1)[0], `"type":"ERROR"`, `"code":410`, `"reason":"Expired"`)
	mustContain(t, s.streamed("resourceVersion=9999999999999999999&"+streaming, "", 1)[0], `"type":"ERROR"`, `"code":504`, "ResourceVersionTooLarge")
	code, _, body := s.get("tester", rckpts+"?watch=true&sendInitialEvents=true", "")
	if code != http.StatusUnprocessableEntity {
		t.Errorf("initial events without a match: %d %s", code, body)
	}
}

func TestRow13Tables(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	_, _, empty := s.get("tester", rckpts, table)
	mustContain(t, empty, `"kind":"Table"`, `"columnDefinitions":[{"name":"Name"`, `"resourceVersion":"1`, `"rows":[]`)

	s.views.Checkpoints.Set(newCheckpoint("x", metav1.ConditionTrue))
	_, _, list := s.get("tester", rckpts, table)
	var parsed metav1.Table
	if err := json.Unmarshal([]byte(list), &parsed); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, column := range parsed.ColumnDefinitions {
		columns = append(columns, fmt.Sprintf("%s/%d", column.Name, column.Priority))
	}
	want := []string{
		"Name/0", "Template/0", "Checksum/0", "Position/0", "Verified/0", "Recoverable/0", "Age/0",
		"Plan/1", "Evidence/1", "Artifacts/1", "Reason/1", "Blocked/1",
	}
	if diff := cmp.Diff(want, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	cells := parsed.Rows[0].Cells
	if age := cells[6]; age == "<unknown>" || age == "" {
		t.Errorf("age = %v", age)
	}
	cells[6] = "AGE"
	wantCells := []any{"x", "web", "0123456789abcdef", "Newest", "True", "True", "AGE", "fedcba9876543210", "", "2/3", "Because", "Because"}
	if diff := cmp.Diff(wantCells, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	_, _, one := s.get("tester", rckpts+"/x", table)
	mustContain(t, one, `"kind":"Table"`, `"fedcba9876543210"`)
	_, _, beta := s.get("tester", rckpts, "application/json;as=Table;v=v1beta1;g=meta.k8s.io")
	mustContain(t, beta, `"apiVersion":"meta.k8s.io/v1beta1"`)
	_, _, intents := s.get("tester", groupPath+"/deploymentintents", table)
	mustContain(t, intents, `"name":"Checkpointed"`)
}

func TestRow13MetadataInJSONAndProtobuf(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.views.Checkpoints.Set(newCheckpoint("x", metav1.ConditionTrue))
	client, err := metadata.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	// The metadata client prefers protobuf.
	list, err := client.Resource(views.SchemeGroupVersion.WithResource("retainedcheckpoints")).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "x" {
		t.Errorf("metadata list = %v, %v", list, err)
	}
	_, contentType, body := s.get("tester", rckpts, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	if !strings.HasPrefix(contentType, "application/json") || strings.Contains(body, "planID") {
		t.Errorf("metadata as JSON: %s %s", contentType, body)
	}
}

// TestRow15P4fInformerFollowsAndSurvivesARestart: its store is right again ten
// seconds after the server is.
func TestRow15P4fInformerFollowsAndSurvivesARestart(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.views.Checkpoints.Set(newCheckpoint("a", metav1.ConditionTrue))
	s.views.Checkpoints.Set(newCheckpoint("gone", metav1.ConditionTrue))
	factory := externalversions.NewSharedInformerFactory(s.client, 0)
	informer := factory.Retained().V1alpha1().RetainedCheckpoints()
	shared := informer.Informer()
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		t.Fatal("the informer never synced")
	}
	holds := func(want map[string]metav1.ConditionStatus) func() bool {
		return func() bool {
			got := map[string]metav1.ConditionStatus{}
			for _, obj := range shared.GetStore().List() {
				v := obj.(*views.RetainedCheckpoint)
				got[v.Name] = v.Status.Conditions[0].Status
			}
			return cmp.Equal(want, got)
		}
	}
	s.eventually("the informer has the first two", holds(map[string]metav1.ConditionStatus{"a": "True", "gone": "True"}))
	s.views.Checkpoints.Set(newCheckpoint("a", metav1.ConditionFalse))
	s.views.Checkpoints.Set(newCheckpoint("b", metav1.ConditionTrue))
	s.views.Checkpoints.Delete("edge", "gone")
	s.eventually("the informer followed", holds(map[string]metav1.ConditionStatus{"a": "False", "b": "True"}))

	address := strings.TrimPrefix(s.config.Host, "https://")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	again := startServer(t, address)
	again.views.Checkpoints.Set(newCheckpoint("b", metav1.ConditionFalse))
	again.views.Checkpoints.Set(newCheckpoint("c", metav1.ConditionTrue))
	began := time.Now()
	again.eventually("the informer is right after a restart", holds(map[string]metav1.ConditionStatus{"b": "False", "c": "True"}))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the informer was right %s after the server was back, want 10 s", took)
	}
}

func TestRow16ShutdownWithOpenWatches(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	for range 10 {
		w, err := s.client.RetainedV1alpha1().RetainedCheckpoints("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	began := time.Now()
	if err := s.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if took := time.Since(began); took > watchTerminationGracePeriod+3*time.Second {
		t.Errorf("shutdown took %s", took)
	}
}

func TestRow17DiscoveryAnswersBeforeDataDoes(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.feed.ready.Store(false)
	for path, want := range map[string]int{
		groupPath: 200, "/apis": 200, "/openapi/v3": 200, "/livez": 200,
		"/readyz": 500, rckpts: 503, rckpts + "/x": 503, rckpts + "?watch=true": 503, rckpts + "/x/config": 503,
	} {
		if code, _, body := s.get("tester", path, ""); code != want {
			t.Errorf("%s: code %d, want %d: %.200s", path, code, want, body)
		}
	}
	s.feed.ready.Store(true)
	if code, _, body := s.get("tester", "/readyz", ""); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
}
