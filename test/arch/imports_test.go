package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast-project/holdfast/"

// layers lists our packages from the innermost to the outermost, as
// ARCHITECTURE.md draws them. A package may import packages of earlier rows
// only; packages of one row never import each other. An entry that ends in
// "/..." is one group whose members may import each other.
var layers = [][]string{
	{"pkg/plan"},
	{"pkg/checkpoint"},
	{"pkg/fencing"},
	{"pkg/agent/api"},
	{"pkg/apis/haptic/v1alpha1"},
	{"pkg/apis/retained"},
	{"pkg/apis/retained/v1alpha1"},
	{"pkg/apis/retained/install"},
	{"generated/..."},
	{"pkg/record"},
	{"pkg/selection"},
	{"pkg/view"},
	{"pkg/inspect"},
	{"pkg/viewcache"},
	{"pkg/viewfeed"},
	{"pkg/registry"},
	{"pkg/registry/retainedcheckpoint", "pkg/registry/deploymentintent"},
	{"pkg/apiserver/active"},
	{"pkg/apiserver"},
	{"pkg/agent/mtls"},
	{"pkg/agent/client", "pkg/agent/server"},
	{
		"pkg/controller/election", "pkg/controller/render", "pkg/controller/gate",
		"pkg/controller/deploy", "pkg/controller/publish", "pkg/controller/recovery", "pkg/controller/httpsource",
	},
	{"pkg/controller"},
	{"cmd/holdfast-apiserver", "cmd/holdfast-controller", "cmd/holdfast-agent", "cmd/kubectl-retained"},
}

// pure packages decide and never act: no clock-driven loop, no client, no log.
var pure = []string{"pkg/plan", "pkg/checkpoint", "pkg/fencing", "pkg/agent/api", "pkg/selection", "pkg/view"}

// forbiddenInPure are import prefixes that would give a pure package a way to
// act, or teach it about Kubernetes clients.
var forbiddenInPure = []string{"k8s.io/client-go", "k8s.io/apiserver", "k8s.io/klog", "net/http/httputil", "os/exec"}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func TestImportsFollowTheArchitecture(t *testing.T) {
	for _, p := range listPackages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(from, "test/") || strings.HasPrefix(from, "hack/") {
			continue
		}
		rank := rankOf(from)
		if rank < 0 {
			t.Errorf("package %s is in no row of the architecture: add it to the table and to ARCHITECTURE.md", from)
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			to := strings.TrimPrefix(imported, module)
			if !mayImport(from, to) {
				t.Errorf("package %s imports %s, which the architecture does not allow", from, to)
			}
		}
	}
}

func TestPurePackagesCannotAct(t *testing.T) {
	for _, p := range listPackages(t) {
		if !slices.Contains(pure, strings.TrimPrefix(p.ImportPath, module)) {
			continue
		}
		for _, imported := range p.Imports {
			for _, prefix := range forbiddenInPure {
				if strings.HasPrefix(imported, prefix) {
					t.Errorf("pure package %s imports %s", p.ImportPath, imported)
				}
			}
		}
	}
}

func TestCheckpointNeverLearnsAboutKubernetes(t *testing.T) {
	for _, p := range listPackages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		if from != "pkg/checkpoint" && from != "pkg/plan" {
			continue
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "k8s.io/") || strings.HasPrefix(imported, "sigs.k8s.io/") {
				t.Errorf("package %s imports %s", from, imported)
			}
		}
	}
}

func TestTheRulesCatchAWrongImport(t *testing.T) {
	wrong := [][2]string{
		{"pkg/checkpoint", "pkg/record"},
		{"pkg/controller/render", "pkg/controller/gate"},
		{"pkg/view", "pkg/viewcache"},
		{"pkg/fencing", "pkg/record"},
		{"pkg/agent/client", "pkg/agent/server"},
	}
	for _, pair := range wrong {
		if mayImport(pair[0], pair[1]) {
			t.Errorf("the rules allow %s to import %s", pair[0], pair[1])
		}
	}
}

func mayImport(from, to string) bool {
	fromRank, toRank := rankOf(from), rankOf(to)
	if fromRank == toRank {
		return groupOf(from) == groupOf(to) && groupOf(from) != ""
	}
	return toRank >= 0 && toRank < fromRank
}

func rankOf(path string) int {
	for rank, row := range layers {
		for _, entry := range row {
			if entry == path || inGroup(entry, path) {
				return rank
			}
		}
	}
	return -1
}

func groupOf(path string) string {
	for _, row := range layers {
		for _, entry := range row {
			if inGroup(entry, path) {
				return entry
			}
		}
	}
	return ""
}

func inGroup(entry, path string) bool {
	group, ok := strings.CutSuffix(entry, "/...")
	return ok && strings.HasPrefix(path, group+"/")
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("reading the package list: %v", err)
		}
		packages = append(packages, p)
	}
}
