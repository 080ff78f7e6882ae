package fakeapi

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

var update = flag.Bool("update", false, "record the answers of the real server of KUBECONFIG, in its namespace "+recordingNamespace)

const (
	recorded           = "testdata/answers.json"
	recordingNamespace = "fakeapi-contract"
)

// The real server's answers are recorded, so that the fake is held to them
// without a cluster; the integration test holds both to each other.
func TestAnswersAreThoseOfTheRealServer(t *testing.T) {
	if *update {
		record(t)
	}
	raw, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var want []Result
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	s := New(Options{AutoGC: true})
	got, err := Run(t.Context(), s.Config("script"), recordingNamespace)
	if err != nil {
		t.Error(err)
	}
	if len(want) != len(got) {
		t.Errorf("%d answers, want %d", len(got), len(want))
	}
	for i := range min(len(want), len(got)) {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("step %q (-real +fake):\n%s", want[i].Step, diff)
		}
	}
}

func record(t *testing.T) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	answers, err := Run(t.Context(), config, recordingNamespace)
	if err != nil {
		t.Error(err)
	}
	raw, err := json.MarshalIndent(answers, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recorded, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
