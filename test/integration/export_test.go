package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// verified is what one run of the offline verifier gave.
type verified struct {
	code           int
	stdout, stderr string
}

// verifyFile verifies an export without any cluster: it has no kubeconfig.
func verifyFile(t *testing.T, file, format string) verified {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("HOLDFAST_BIN"), "kubectl-retained"), "verify", "-f", file, "-o", format)
	cmd.Env = append(os.Environ(), "KUBECONFIG=/nonexistent")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return verified{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// export writes what an operator would keep as a backup.
func export(ctx context.Context, file string) error {
	out, err := tryKube(ctx, "get", "htplcfg,hpcfg,hpmap,hpgf,hpcl,secrets,leases", "-n", fleet, "-o", "yaml", "--show-managed-fields")
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(out), 0o600)
}

// exportThatAgrees exports until the offline verdicts are those of the API: both
// are read at different moments, and the fleet goes on meanwhile.
func exportThatAgrees(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export.yaml")
	eventually(t, "the offline verdicts are those of the API", func(ctx context.Context) error {
		if err := export(ctx, file); err != nil {
			return err
		}
		served, err := tryKube(ctx, "get", "retainedcheckpoints,deploymentintents", "-n", fleet, "-o", "json")
		if err != nil {
			return err
		}
		got := verifyFile(t, file, "json")
		if got.code != 0 {
			return fmt.Errorf("exit code %d, want 0: %s%s", got.code, got.stderr, verifyFile(t, file, "table").stdout)
		}
		want, err := viewsIn(served)
		if err != nil {
			return err
		}
		offline, err := viewsIn(got.stdout)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, offline); diff != "" || len(want) == 0 {
			return fmt.Errorf("%d views (-API +offline):\n%s", len(want), diff)
		}
		return nil
	})
	return file
}

// viewsIn are the objects of a List by kind and name, without their versions,
// which only a server has.
func viewsIn(list string) (map[string]any, error) {
	var read struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(list), &read); err != nil {
		return nil, fmt.Errorf("decoding views: %w", err)
	}
	found := map[string]any{}
	for _, item := range read.Items {
		metadata, ok := item["metadata"].(map[string]any)
		if !ok {
			return nil, errors.New("a view has no metadata")
		}
		delete(metadata, "resourceVersion")
		found[fmt.Sprintf("%v %v", item["kind"], metadata["name"])] = item
	}
	return found, nil
}

func TestExportVerifiesOfflineAsTheAPIServesIt(t *testing.T) {
	exportThatAgrees(t)
}

func TestExportWithAChangedByteIsDamagedAndNamesTheObject(t *testing.T) {
	file := exportThatAgrees(t)
	found := mustNewest(t)
	tests := []struct {
		family string
		change func(object map[string]any) error
	}{
		{family: "Map", change: func(object map[string]any) error { return setIn(object, "tampered 1\n", "spec", "entries") }},
		{family: "General", change: func(object map[string]any) error { return setIn(object, "tampered", "spec", "content") }},
		{family: "Certificate", change: func(object map[string]any) error { return setIn(object, "dGFtcGVyZWQ=", "data", "certificate") }},
	}
	for _, tc := range tests {
		t.Run(tc.family, func(t *testing.T) {
			object := artifactOf(t, found, tc.family).Object
			got := verifyFile(t, tampered(t, file, object, tc.change), "table")
			if got.code != 1 {
				t.Errorf("exit code %d, want 1: %s", got.code, got.stderr)
			}
			if !strings.Contains(got.stdout, object.Kind+"/"+object.Name) || !strings.Contains(got.stdout, found.Name) {
				t.Errorf("the table names not both %s and %s:\n%s", object.Name, found.Name, got.stdout)
			}
		})
	}
}

func setIn(object map[string]any, value string, member, field string) error {
	inner, ok := object[member].(map[string]any)
	if !ok {
		return fmt.Errorf("the object has no %s", member)
	}
	if _, ok := inner[field].(string); !ok {
		return fmt.Errorf("%s has no text %s", member, field)
	}
	inner[field] = value
	return nil
}

// tampered is a copy of an export with one object changed.
func tampered(t *testing.T, file string, ref *views.ObjectReference, change func(map[string]any) error) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list map[string]any
	if err := yaml.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	items, _ := list["items"].([]any)
	index := slices.IndexFunc(items, func(item any) bool {
		object, _ := item.(map[string]any)
		metadata, _ := object["metadata"].(map[string]any)
		return object["kind"] == ref.Kind && metadata["name"] == ref.Name
	})
	if index < 0 {
		t.Fatalf("the export holds no %s/%s", ref.Kind, ref.Name)
	}
	if err := change(items[index].(map[string]any)); err != nil {
		t.Fatal(err)
	}
	if raw, err = yaml.Marshal(list); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "tampered.yaml")
	if err := os.WriteFile(changed, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return changed
}
