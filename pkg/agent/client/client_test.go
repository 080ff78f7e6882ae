package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// fake serves one handler in place of an agent.
func fake(t *testing.T, handler http.HandlerFunc) (*Client, Target) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	c := &Client{config: Config{StateTimeout: 2 * time.Second, ApplyTimeout: 2 * time.Second}, http: server.Client()}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirect }
	return c, Target{PodName: "p", PodUID: "uid", TemplateUID: "template", Address: strings.TrimPrefix(server.URL, "https://")}
}

func answer(t *testing.T, w http.ResponseWriter, status int, body any) {
	t.Helper()
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		t.Error(err)
	}
}

func TestRequestsAreAddressed(t *testing.T) {
	c, target := fake(t, func(w http.ResponseWriter, r *http.Request) {
		got := []string{r.Method, r.URL.String(), r.Header.Get(api.HeaderPodUID), r.Header.Get(api.HeaderTemplateUID)}
		if diff := cmp.Diff([]string{"GET", "/v1/state?plan=0&verify=1", "uid", "template"}, got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		answer(t, w, http.StatusOK, api.State{APIVersion: api.Version, PodUID: "uid"})
	})
	if _, err := c.State(t.Context(), target, StateOptions{Verify: true, WithoutPlan: true}); err != nil {
		t.Error(err)
	}
}

// TestAnswersAreTyped: each refusal comes back as what it is.
func TestAnswersAreTyped(t *testing.T) {
	is := func(target any) func(error) bool { return func(err error) bool { return errors.As(err, target) } }
	var conflict *ConflictError
	var missing *MissingError
	var refused *RefusedError
	var unanswered *UnansweredError
	tests := []struct {
		name   string
		handle http.HandlerFunc
		want   func(error) bool
	}{
		{"a conflict", func(w http.ResponseWriter, _ *http.Request) {
			answer(t, w, http.StatusConflict, api.Conflict{Reason: api.ReasonStaleEpoch})
		}, func(err error) bool {
			return errors.As(err, &conflict) && conflict.Conflict.Reason == api.ReasonStaleEpoch
		}},
		{"missing files that are not at hand", func(w http.ResponseWriter, _ *http.Request) {
			answer(t, w, http.StatusConflict, api.Missing{Missing: []string{"x"}})
		}, is(&missing)},
		{"a conflict without a reason", func(w http.ResponseWriter, _ *http.Request) { answer(t, w, http.StatusConflict, struct{}{}) }, is(&refused)},
		{"not ready", func(w http.ResponseWriter, _ *http.Request) {
			answer(t, w, http.StatusServiceUnavailable, api.ErrorDetail{Stage: api.StageStartup})
		}, func(err error) bool { return errors.As(err, &refused) && refused.Detail.Stage == api.StageStartup }},
		{"a page of a proxy in between", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, is(&refused)},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			func(err error) bool { return errors.Is(err, errRedirect) }},
		{"an answer that is cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, is(&unanswered)},
		{"an answer without an end", func(w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, is(&unanswered)},
		{"no answer in time", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(err error) bool { return errors.As(err, &unanswered) && errors.Is(err, context.DeadlineExceeded) }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c, target := fake(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				tc.handle(w, r)
			})
			if _, err := c.Apply(t.Context(), target, ApplyRequest{}); !tc.want(err) {
				t.Errorf("got %T %v", err, err)
			}
		})
	}
}

// TestApplySendsWhatIsNeeded: first what the pod does not hold, then exactly
// what it asks for, in the order the agent demands.
func TestApplySendsWhatIsNeeded(t *testing.T) {
	request := ApplyRequest{Plan: []byte("plan"), Parts: map[string][]byte{}, Held: map[string]api.FileState{}}
	for _, path := range []string{"a", "b/ö", "c\"d"} {
		request.Parts[path] = []byte("content of " + path)
		request.Manifest.Files = append(request.Manifest.Files, api.Declare(api.FileSpec{Path: path, Kind: api.KindMap}, request.Parts[path]))
	}
	request.Held["a"] = request.Manifest.Files[0].State()
	request.Held["b/ö"] = request.Manifest.Files[2].State()
	var got [][]string
	c, target := fake(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, partsOf(t, r))
		if len(got) == 1 {
			answer(t, w, http.StatusConflict, api.Missing{Missing: []string{"a", "b/ö"}})
			return
		}
		answer(t, w, http.StatusOK, api.Result{OK: true})
	})
	result, err := c.Apply(t.Context(), target, request)
	if err != nil || !result.OK {
		t.Fatalf("apply: %+v, %v", result, err)
	}
	want := [][]string{{"manifest", "plan", "b/ö=content of b/ö", "c\"d=content of c\"d"}, {"manifest", "plan", "a=content of a", "b/ö=content of b/ö"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func partsOf(t *testing.T, r *http.Request) []string {
	t.Helper()
	if r.ContentLength <= 0 {
		t.Errorf("content length %d", r.ContentLength)
	}
	form, err := r.MultipartReader()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, describe(t, part, params))
	}
}

func describe(t *testing.T, part *multipart.Part, params map[string]string) string {
	t.Helper()
	path, ok := params["filename"]
	if !ok {
		return params["name"]
	}
	content, err := io.ReadAll(part)
	if err != nil {
		t.Fatal(err)
	}
	return path + "=" + string(content)
}
