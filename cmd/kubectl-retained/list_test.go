package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/registry/retainedcheckpoint"
)

func TestListHasTheColumnsOfTheAPI(t *testing.T) {
	table, err := retainedcheckpoint.NewStorage(nil, nil).ConvertToTable(t.Context(), &views.RetainedCheckpointList{}, &metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for format, widest := range map[string]int32{"table": 0, "wide": 1} {
		want := []string{"NAMESPACE"}
		for _, column := range table.ColumnDefinitions {
			if column.Priority <= widest {
				want = append(want, strings.ToUpper(column.Name))
			}
		}
		code, out, errOut := called(t, "", "kubectl-retained", "list", "-f", exports+"sound.yaml", "-o", format)
		header, _, _ := strings.Cut(out, "\n")
		if diff := cmp.Diff(want, strings.Fields(header)); diff != "" || code != 0 {
			t.Errorf("%s: exit code %d (-api +list):\n%s%s", format, code, diff, errOut)
		}
	}
}

// TestListSaysWhenItReadTheStoredObjects: the verdicts are the same, but the rights
// and the load are not.
func TestListSaysWhenItReadTheStoredObjects(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, views.GroupName) {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"v1","items":[]}`))
	}))
	t.Cleanup(server.Close)
	code, out, errOut := called(t, "", "kubectl-retained", "list", "-n", "edge", "--server", server.URL)
	if code != 0 || out != "" || !strings.Contains(errOut, "the aggregated API does not answer, so the stored objects were read: ") ||
		!strings.Contains(errOut, "No checkpoints found.") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}

func TestExportCommand(t *testing.T) {
	dir, sound := t.TempDir(), exports+"sound.yaml"
	newest := checksumsOf(t)[1]
	folder, archive := filepath.Join(dir, "checkpoint"), filepath.Join(dir, "checkpoint.tar")
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a folder", []string{"export", newest, "-f", sound, "-o", folder, "--with-secrets"}, 0, "exported edge/" + newest},
		{"what is there already", []string{"export", newest, "-f", sound, "-o", folder}, exitUnusable, "nothing is overwritten"},
		{"verified again", []string{"verify", "-f", folder}, 0, newest},
		{"an archive", []string{"export", newest, "-f", sound, "-o", archive}, 0, "left out: "},
		{"no destination", []string{"export", newest, "-f", sound}, exitUnusable, "give a folder or an archive with -o"},
		{"no such folder", []string{"export", newest, "-f", sound, "-o", filepath.Join(dir, "none/x")}, exitUnusable, "no such file"},
		{"no such checkpoint", []string{"export", "none", "-f", sound, "-o", filepath.Join(dir, "y")}, exitUnusable, "found none"},
		{"colours that there are not", []string{"diff", newest, newest, "-f", sound, "--color=red"}, exitUnusable, "none of auto, always, never"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errOut := called(t, "", append([]string{"kubectl-retained"}, tc.args...)...)
			if code != tc.code || !strings.Contains(out+errOut, tc.says) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s%s", code, tc.code, tc.says, out, errOut)
			}
		})
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

// TestEveryCommandHasHelpWithExamples of its own, under the name it is called by.
func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	code := 0
	var names []string
	for _, cmd := range newCommand("kubectl retained", genericiooptions.NewTestIOStreamsDiscard(), &code).Commands() {
		names = append(names, cmd.Name())
		if !strings.Contains(cmd.Example, "kubectl retained "+cmd.Name()) || len(cmd.Long) < 100 || !strings.Contains(cmd.Long, "\n  3  ") && cmd.Name() != "config" {
			t.Errorf("%s has help without examples or exit codes", cmd.Name())
		}
	}
	want := []string{"config", "diff", "drill", "export", "list", "status", "verify"}
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}
