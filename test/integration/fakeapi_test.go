package integration

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// The simulation proves our code against the fake API server, so the fake has
// to answer as the real one does.
func TestTheFakeAPIServerAnswersAsTheRealOne(t *testing.T) {
	const namespace = "fakeapi-contract"
	kube(t, "create", "namespace", namespace)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := tryKube(ctx, "delete", "namespace", namespace, "--wait=true"); err != nil {
			t.Error(err)
		}
	})
	want, err := fakeapi.Run(t.Context(), realConfig(t), namespace)
	if err != nil {
		t.Fatalf("the real server: %v", err)
	}
	got, err := fakeapi.Run(t.Context(), fakeapi.New(fakeapi.Options{AutoGC: true}).Config("script"), namespace)
	if err != nil {
		t.Fatalf("the fake server: %v", err)
	}
	for i := range want {
		anyVersionInBookmarks(want[i].Body)
		anyVersionInBookmarks(got[i].Body)
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("step %q (-real +fake):\n%s", want[i].Step, diff)
		}
	}
	t.Logf("compared the answers to %d requests", len(want))
}

// anyVersionInBookmarks levels the versions of bookmarks: others write to this
// cluster too, and a bookmark may carry the version of their last change.
func anyVersionInBookmarks(body any) {
	events, _ := body.([]any)
	for _, event := range events {
		e, _ := event.(map[string]any)
		object, _ := e["object"].(map[string]any)
		if meta, ok := object["metadata"].(map[string]any); ok && e["type"] == "BOOKMARK" && meta["resourceVersion"] != "" {
			meta["resourceVersion"] = "a version"
		}
	}
}

// realConfig reaches kube-apiserver without a rate limit.
func realConfig(t *testing.T) *rest.Config {
	t.Helper()
	raw := kube(t, "config", "view", "--raw", "--minify", "--flatten")
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}
