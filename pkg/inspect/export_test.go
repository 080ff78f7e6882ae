package inspect

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

var exportedAt = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func exportOf(t *testing.T, e *export, which string, secrets bool) *Export {
	t.Helper()
	files := Files{Paths: []string{"-"}, Stdin: bytes.NewReader(e.yaml(t)), Originals: true}
	inv, err := files.Read()
	if err != nil {
		t.Fatal(err)
	}
	x, err := NewExport(inv, ExportSettings{Checkpoint: which, Secrets: secrets, Now: exportedAt, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func written(t *testing.T, x *Export, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	if err := x.Write(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	return to
}

func verifyFolder(t *testing.T, folder string) *Report {
	t.Helper()
	inv, err := (&Files{Paths: []string{folder}}).Read()
	if err != nil {
		t.Fatal(err)
	}
	report, err := Verify(inv)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// contentsOf is every file of a folder, and fails for one that others could read.
func contentsOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		if entry.IsDir() {
			return nil
		}
		raw, err := os.ReadFile(name)
		below, relErr := filepath.Rel(folder, name)
		found[below] = string(raw)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAnExportWithoutSecretsHoldsNoneAndSaysSo(t *testing.T) {
	e := newExport(t)
	e.secrets[0].Annotations[lastApplied] = `{"data":"` + keyBytes + `"}`
	e.secrets[0].Annotations["backup.example/copy"] = keyBytes
	x := exportOf(t, e, e.newest.Spec.Checksum[:10], false)
	contents := contentsOf(t, written(t, x, "checkpoint"))
	for name, text := range contents {
		for _, secret := range []string{keyBytes, "PRIVATE KEY", "Z2VuZXJhbA", "Y2xpZW50cw", string(e.secrets[0].Data["certificate"])} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q", name, secret)
			}
		}
	}
	want := []string{
		"files/etc/haproxy/general/503.http", "files/etc/haproxy/haproxy.cfg", "files/etc/haproxy/maps/hosts.map",
		"files/etc/haproxy/maps/none.map", "files/etc/haproxy/ssl/list.txt", exportManifest, exportObjects,
	}
	var names []string
	for name := range contents {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := contents["files/etc/haproxy/maps/hosts.map"]; got != "shop.example app\n" {
		t.Errorf("the map holds %q", got)
	}
	var said, errOut bytes.Buffer
	if err := x.PrintSummary(&said, &errOut, "checkpoint"); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"Secret/" + e.secrets[0].Name + ", data", "Certificate /etc/haproxy/ssl/shop_example.pem", "GeneralCA /etc/haproxy/general/upstream_ca.pem"} {
		if !strings.Contains(errOut.String(), "left out: "+what) {
			t.Errorf("%s is left out without a word:\n%s", what, errOut.String())
		}
	}
}

func TestAnExportIsVerifiedAgainWithTheSameView(t *testing.T) {
	e := newExport(t)
	all := mustVerify(t, e.yaml(t))
	for _, secrets := range []bool{true, false} {
		x := exportOf(t, e, e.newest.Name, secrets)
		report := verifyFolder(t, written(t, x, "checkpoint"))
		if len(report.Checkpoints) != 1 || x.Outcome() != Sound {
			t.Fatalf("%d checkpoints, exported with outcome %d", len(report.Checkpoints), x.Outcome())
		}
		if !secrets {
			if got := report.Checkpoints[0].Verdict; got.State != checkpoint.Unknown || got.Reason != ReasonNotGiven || report.Outcome() != Unjudged {
				t.Errorf("without Secrets the verdict is %s, %s, outcome %d", got.State, got.Reason, report.Outcome())
			}
			continue
		}
		var want *views.RetainedCheckpoint
		for i := range all.Checkpoints {
			if all.Checkpoints[i].View.Name == e.newest.Name {
				want = all.Checkpoints[i].View
			}
		}
		if diff := cmp.Diff(want, report.Checkpoints[0].View); diff != "" {
			t.Errorf("the view (-before +from the export):\n%s", diff)
		}
		if report.Outcome() != Sound {
			t.Errorf("outcome %d: %v", report.Outcome(), said(report))
		}
	}
}

func TestAnAlteredExportIsFound(t *testing.T) {
	tests := []struct {
		name  string
		alter func(folder string) error
		says  string
	}{
		{"a changed file", func(f string) error {
			return os.WriteFile(filepath.Join(f, "files/etc/haproxy/haproxy.cfg"), []byte("global\n"), 0o600)
		}, "haproxy.cfg: expected sha256:"},
		{"an added file", func(f string) error { return os.WriteFile(filepath.Join(f, "files/more"), nil, 0o600) }, "files/more: it is not in the manifest"},
		{"a removed file", func(f string) error { return os.Remove(filepath.Join(f, "files/etc/haproxy/maps/hosts.map")) }, "hosts.map: it is in the manifest and not in the folder"},
		{"a link in place of a file", func(f string) error {
			name := filepath.Join(f, "files/etc/haproxy/haproxy.cfg")
			return errors.Join(os.Remove(name), os.Symlink("/etc/hostname", name))
		}, "it is no plain file"},
		{"changed objects", func(f string) error {
			name := filepath.Join(f, exportObjects)
			raw, err := os.ReadFile(name)
			return errors.Join(err, os.WriteFile(name, bytes.Replace(raw, []byte("shop.example app"), []byte("evil.example app"), 1), 0o600))
		}, "objects.json: expected sha256:"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newExport(t)
			folder := written(t, exportOf(t, e, e.newest.Name, true), "checkpoint")
			if err := tc.alter(folder); err != nil {
				t.Fatal(err)
			}
			report := verifyFolder(t, folder)
			var messages []string
			for _, n := range report.Notices {
				messages = append(messages, n.Message)
			}
			if report.Outcome() != Damaged || !strings.Contains(strings.Join(messages, "\n"), tc.says) {
				t.Errorf("outcome %d, want %q in %v", report.Outcome(), tc.says, messages)
			}
		})
	}
}

func TestADamagedCheckpointIsExportedAsEvidence(t *testing.T) {
	e := newExport(t)
	e.maps[len(e.maps)-1].Spec.Entries = "evil.example app\n"
	x := exportOf(t, e, e.newest.Name, true)
	if x.Outcome() != Damaged {
		t.Fatalf("outcome %d", x.Outcome())
	}
	contents := contentsOf(t, written(t, x, "checkpoint"))
	for name, text := range contents {
		if strings.HasPrefix(name, exportFolder) && strings.Contains(text, "evil.example") {
			t.Errorf("%s is laid out as if it were what was retained", name)
		}
	}
	if !strings.Contains(contents[exportObjects], "evil.example") {
		t.Error("the evidence is missing")
	}
	var manifest ExportManifest
	if err := json.Unmarshal([]byte(contents[exportManifest]), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Findings) == 0 || manifest.Findings[0].State != checkpoint.Damaged {
		t.Errorf("the manifest's findings are %v", manifest.Findings)
	}
}

func TestPathsLeadNowhereElse(t *testing.T) {
	tests := []struct {
		stored, want string
	}{
		{"/etc/haproxy/haproxy.cfg", "files/etc/haproxy/haproxy.cfg"},
		{"maps/hosts.map", "files/maps/hosts.map"},
		{"..", ""}, {"../x", ""}, {"/../x", ""}, {"/etc/../../x", ""}, {"a/../b", ""}, {"a/./b", ""}, {"a//b", ""},
		{"//etc/x", ""}, {"", ""}, {"/", ""}, {".", ""}, {"a/", ""}, {`..\x`, ""}, {`c:\x`, ""}, {"c:x", ""}, {"a\x00b", ""}, {"a\nb", ""},
	}
	for _, tc := range tests {
		got, ok := exportPath(tc.stored)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%q becomes %q, %t", tc.stored, got, ok)
		}
	}
}

// TestACheckpointWithATraversingPathIsExportedWithoutThatFile: the path is part of
// what its publisher stored, so that the checkpoint itself verifies.
func TestACheckpointWithATraversingPathIsExportedWithoutThatFile(t *testing.T) {
	e := newExport(t)
	x := &exporter{
		Export: &Export{contents: map[string][]byte{}},
		judged: &Checkpoint{Verdict: checkpoint.Verdict{
			State: checkpoint.Verified, ConfigurationPath: "../../outside.cfg", Configuration: new(checkpoint.Sum),
		}},
		r: &retained{cfg: e.newest, stored: &checkpoint.StoredCheckpoint{Content: "global\n"}},
	}
	x.files()
	if err := x.seal(); err != nil {
		t.Fatal(err)
	}
	to := written(t, x.Export, "checkpoint")
	if got := contentsOf(t, to); len(got) != 1 {
		t.Errorf("files are %v", got)
	}
	if x.Outcome() != Unjudged || len(x.Manifest.LeftOut) != 1 || !strings.Contains(x.Manifest.LeftOut[0].Why, "refused") {
		t.Errorf("outcome %d, left out %v", x.Outcome(), x.Manifest.LeftOut)
	}
}

func TestNothingIsOverwrittenAndNothingIsHalfWritten(t *testing.T) {
	e := newExport(t)
	x := exportOf(t, e, e.newest.Name, false)
	for _, name := range []string{"there", "there.tar"} {
		dir := t.TempDir()
		to := filepath.Join(dir, name)
		if err := os.WriteFile(to, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := x.Write(t.Context(), to); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
		if raw, err := os.ReadFile(to); err != nil || string(raw) != "mine" {
			t.Errorf("%s now holds %q, %v", name, raw, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := x.Write(ctx, filepath.Join(dir, "interrupted-"+name)); !errors.Is(err, context.Canceled) {
			t.Errorf("an interrupted export ends with %v", err)
		}
		broken := &Export{contents: map[string][]byte{"a": nil, "a/b": nil}}
		if err := broken.Write(t.Context(), filepath.Join(dir, "broken")); err == nil {
			t.Error("a file that is a folder too was written")
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("the folder holds %v, %v", entries, err)
		}
	}
}

func TestSecretsOfAClusterAreExportedOnlyIfAskedForAndPermitted(t *testing.T) {
	forbidden := map[string]int{"list secrets": http.StatusForbidden, "get secrets": http.StatusForbidden}
	tests := []struct {
		name    string
		secrets bool
		refused map[string]int
		outcome Outcome
		err     error
		leaves  string
	}{
		{name: "not asked for", leaves: "--with-secrets was not given"},
		{name: "asked for and permitted", secrets: true},
		{name: "asked for and not permitted", secrets: true, refused: forbidden, err: ErrSecretsWithheld},
		{name: "neither", refused: forbidden, outcome: Unjudged, leaves: "there is no right to read it"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newExport(t)
			s := &apiServer{t: t, objects: e.stored(), refused: tc.refused}
			x, err := clusterOf(t, s, namespace).Export(t.Context(), ExportSettings{Checkpoint: e.newest.Name, Secrets: tc.secrets, Now: exportedAt})
			if !errors.Is(err, tc.err) {
				t.Fatalf("the error is %v", err)
			}
			if err != nil {
				return
			}
			if x.Outcome() != tc.outcome {
				t.Errorf("outcome %d, want %d", x.Outcome(), tc.outcome)
			}
			folder := written(t, x, "checkpoint")
			keys := strings.Contains(contentsOf(t, folder)["files/etc/haproxy/ssl/shop_example.pem"], keyBytes)
			if keys != tc.secrets {
				t.Errorf("keys are exported: %t", keys)
			}
			if tc.leaves != "" && !slices.ContainsFunc(x.Manifest.LeftOut, func(l LeftOut) bool { return strings.HasPrefix(l.What, "Secret/") && l.Why == tc.leaves }) {
				t.Errorf("left out are %v", x.Manifest.LeftOut)
			}
			want := Sound
			if !tc.secrets {
				want = Unjudged
			}
			if got := verifyFolder(t, folder).Outcome(); got != want {
				t.Errorf("verified again with outcome %d, want %d", got, want)
			}
		})
	}
}

func TestAnArchiveHoldsTheFolder(t *testing.T) {
	e := newExport(t)
	x := exportOf(t, e, e.newest.Name, true)
	folder := contentsOf(t, written(t, x, "edge"))
	file, err := os.Open(written(t, x, "edge.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	got := map[string]string{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil || header.Mode != 0o600 {
			t.Errorf("%s: mode %o, %v", header.Name, header.Mode, err)
		}
		got[strings.TrimPrefix(header.Name, "edge/")] = string(raw)
	}
	if diff := cmp.Diff(folder, got); diff != "" {
		t.Errorf("the archive (-folder +archive):\n%s", diff)
	}
}
