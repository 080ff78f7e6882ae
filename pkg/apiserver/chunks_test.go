package apiserver

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

func TestLongListsAreCompressedForThoseWhoTakeItSo(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.feed.ready.Store(true)
	const many = 400
	for i := range many {
		s.views.Checkpoints.Set(newCheckpoint(fmt.Sprintf("c%03d", i), metav1.ConditionTrue))
	}
	config := restclient.CopyConfig(s.config)
	config.DisableCompression = true // the client asks by itself, or not
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, query, accepts, want string
		items                      int
	}{
		{"a long list", "", "gzip", "gzip", many},
		{"a long list for somebody who does not take it so", "", "", "", many},
		{"a short list", "?fieldSelector=metadata.name%3Dc001", "gzip", "", 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/apis/"+views.SchemeGroupVersion.String()+"/retainedcheckpoints"+tc.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Accept", "application/json")
			if tc.accepts != "" {
				request.Header.Set("Accept-Encoding", tc.accepts)
			}
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if got := answer.Header.Get("Content-Encoding"); got != tc.want {
				t.Fatalf("encoded as %q, want %q", got, tc.want)
			}
			var body io.Reader = answer.Body
			if tc.want == "gzip" {
				if body, err = gzip.NewReader(answer.Body); err != nil {
					t.Fatal(err)
				}
			}
			var list views.RetainedCheckpointList
			if err := json.NewDecoder(body).Decode(&list); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != tc.items || list.ResourceVersion == "" {
				t.Errorf("%d items in version %q, want %d", len(list.Items), list.ResourceVersion, tc.items)
			}
		})
	}
}

// TestAListThatNobodyReadsOn: whoever goes away in the midst of a list leaves
// nothing at work, and what is being written learns of it.
func TestAListThatNobodyReadsOn(t *testing.T) {
	gone := errors.New("the client has gone")
	var problem error
	handler := inChunks(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			if _, problem = w.Write(make([]byte, chunkBytes)); problem != nil {
				return
			}
		}
	}))
	handler.ServeHTTP(&brokenResponse{httptest.NewRecorder(), gone}, httptest.NewRequest(http.MethodGet, "/", nil))
	if !errors.Is(problem, gone) {
		t.Errorf("the writer was told %v", problem)
	}
}

// brokenResponse takes no body.
type brokenResponse struct {
	http.ResponseWriter
	err error
}

func (b *brokenResponse) Write([]byte) (int, error) { return 0, b.err }
