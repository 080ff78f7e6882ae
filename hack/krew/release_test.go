package krew

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	release = "v0.0.1-test"
	// buildLimit bounds one run of the script, which compiles everything anew
	// where the flag asks for that.
	buildLimit = 9 * time.Minute
)

// asReleased is off by default because nothing else compiles with those flags, so
// that no cache has it.
var asReleased = flag.Bool("as-released", false, "build with the flags of a release, which takes minutes")

// plugin is as much of a Krew manifest as is looked at; the rest must not exist.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
	Files  []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

// released runs the release for this machine's platform.
func released(t *testing.T, args ...string) (folder, said string, err error) {
	t.Helper()
	folder = t.TempDir()
	args = append([]string{args[0], folder}, args[1:]...)
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "../release-plugin.sh", args...)
	// The compiler is a grandchild, and would go on.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	// Without it the time is that of the commit, which may change between two runs.
	command.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1772366400")
	if !*asReleased {
		command.Env = append(command.Env, "UNRELEASED=1")
	}
	out, err := command.CombinedOutput()
	return folder, string(out), err
}

// TestTheManifestIsThatOfTheArchive: digest, address, names and content agree, the
// binary is of the release, and building it again gives the same bytes.
func TestTheManifestIsThatOfTheArchive(t *testing.T) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	folder, said, err := released(t, release, here)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "retained.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest plugin
	if err := yaml.UnmarshalStrict(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "retained" || manifest.Kind != "Plugin" || manifest.Spec.Version != release || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("the manifest is\n%s", raw)
	}
	// Krew's index asks for fewer than 50 characters and no full stop.
	if s := manifest.Spec; len(s.ShortDescription) >= 50 || strings.HasSuffix(s.ShortDescription, ".") || s.Description == "" {
		t.Errorf("the short description is %q", s.ShortDescription)
	}
	p := manifest.Spec.Platforms[0]
	if diff := cmp.Diff(map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}, p.Selector.MatchLabels); diff != "" {
		t.Errorf("platform (-want +got):\n%s", diff)
	}
	name := p.URI[strings.LastIndex(p.URI, "/")+1:]
	if !strings.HasPrefix(p.URI, "https://github.com/holdfast-project/holdfast/releases/download/"+release+"/") {
		t.Errorf("the address is %s", p.URI)
	}
	archive, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(archive); p.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("the manifest says %s, the archive has %x", p.SHA256, sum)
	}
	unpacked := t.TempDir()
	names := unpack(t, filepath.Join(folder, name), unpacked)
	if diff := cmp.Diff([]string{"LICENSE", "kubectl-retained"}, names); diff != "" {
		t.Errorf("the archive (-want +got):\n%s", diff)
	}
	if len(p.Files) != len(names) {
		t.Errorf("the manifest takes %v out of %v", p.Files, names)
	}
	for _, file := range p.Files {
		if !slices.Contains(names, file.From) || file.To != "." {
			t.Errorf("the manifest takes %s to %s, the archive holds %v", file.From, file.To, names)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(unpacked, p.Bin), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), release) {
		t.Errorf("the binary says %q, %v", out, err)
	}
	checkFlags(t, filepath.Join(unpacked, p.Bin))
	again, said, err := released(t, release, here)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if second, err := os.ReadFile(filepath.Join(again, name)); err != nil || string(second) != string(archive) {
		t.Errorf("built again, the archive differs: %v", err)
	}
}

// checkFlags sees that a release is built so that the machine leaves no trace.
func checkFlags(t *testing.T, binary string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	built := map[string]string{}
	for _, setting := range info.Settings {
		built[setting.Key] = setting.Value
	}
	if built["vcs.revision"] != "" || *asReleased && (built["-trimpath"] != "true" || built["CGO_ENABLED"] != "0") {
		t.Errorf("the binary is built with %v", built)
	}
}

// unpack unpacks an archive and returns the names in it, in order.
func unpack(t *testing.T, archive, to string) []string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if !zipped.ModTime.IsZero() || zipped.Name != "" {
		t.Errorf("gzip tells the time %v and the name %q", zipped.ModTime, zipped.Name)
	}
	var names []string
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to %d, %d, %q", header.Name, header.Uid, header.Gid, header.Uname)
		}
		names = append(names, header.Name)
		target, err := os.OpenFile(filepath.Join(to, filepath.Base(header.Name)), os.O_CREATE|os.O_WRONLY, header.FileInfo().Mode())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(target, r); err != nil {
			t.Fatal(err)
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReleaseNeedsAVersion(t *testing.T) {
	folder, said, err := released(t, "0.1", "linux/amd64")
	if err == nil || !strings.Contains(said, "no semantic version") {
		t.Errorf("%v\n%s", err, said)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
		t.Errorf("left behind are %v, %v", entries, err)
	}
}
