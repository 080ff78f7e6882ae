package apiserver

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
