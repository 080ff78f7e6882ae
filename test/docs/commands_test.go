package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command is one kubectl command of a document, and where it stands.
type command struct {
	where string
	args  []string
}

// runElsewhere are plugins whose commands kubectl itself cannot parse. Those of
// "kubectl retained" are run in cmd/kubectl-retained, each of them.
var runElsewhere = map[string]bool{"retained": true, "krew": true}

// commands are the kubectl commands in the code blocks of all documents.
func commands(t *testing.T) []command {
	t.Helper()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal("no documents", err)
	}
	var found []command
	for _, document := range append(documents, "../../README.md", "../../CONTRIBUTING.md") {
		raw, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		inside := false
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				inside = !inside
				continue
			}
			if inside {
				found = append(found, commandsOf(filepath.Base(document), line)...)
			}
		}
	}
	return found
}

var between = regexp.MustCompile(`\|\||&&|[|;]`)

func commandsOf(where, line string) []command {
	line, _, _ = strings.Cut(line, " #")
	var found []command
	for _, part := range between.Split(line, -1) {
		rest, isKubectl := strings.CutPrefix(strings.TrimSpace(part), "kubectl ")
		if !isKubectl {
			continue
		}
		rest, _, _ = strings.Cut(rest, " >")
		rest, _, _ = strings.Cut(rest, " <")
		found = append(found, command{where: where, args: strings.Fields(rest)})
	}
	return found
}

// kubectl is the one of the development cluster, or any other.
func kubectl(t *testing.T) string {
	t.Helper()
	built, err := filepath.Abs("../../bin/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built); err == nil {
		return built
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl: make build makes one")
	}
	return path
}

// problem is what kubectl says of a command's flags, which it reads before it shows
// the help.
func problem(t *testing.T, kubectl string, args []string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), kubectl, append(append([]string{}, args...), "--help")...)
	run.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull)
	out, err := run.CombinedOutput()
	text := string(out)
	if err == nil && strings.Contains(text, "Usage:") && !strings.HasPrefix(text, "kubectl controls the Kubernetes cluster manager") {
		return ""
	}
	return text
}

// TestEveryKubectlCommandParses: commands and flags that do not exist are found
// before a reader finds them at night.
func TestEveryKubectlCommandParses(t *testing.T) {
	binary, tried, seen := kubectl(t), 0, map[string]bool{}
	for _, c := range commands(t) {
		if line := strings.Join(c.args, " "); runElsewhere[c.args[0]] || seen[line] {
			continue
		} else {
			seen[line] = true
		}
		tried++
		if text := problem(t, binary, c.args); text != "" {
			t.Errorf("%s: kubectl %s:\n%.300s", c.where, strings.Join(c.args, " "), text)
		}
	}
	if tried < 20 {
		t.Errorf("only %d commands were found", tried)
	}
	for _, wrong := range [][]string{{"get", "pods", "--none"}, {"frobnicate", "pods"}} {
		if problem(t, binary, wrong) == "" {
			t.Errorf("kubectl %v passes", wrong)
		}
	}
}

// builtin are the resources of Kubernetes that documents name.
var builtin = map[string]bool{
	"all": true, "apiservice": true, "deployment": true, "events": true, "leases": true, "nodes": true, "ns": true,
	"pod": true, "pods": true, "secrets": true, "namespace": true, "ingress": true, "endpointslices": true,
	"lease": true, "secret": true, "configmap": true, "service": true, "crd": true, "job": true, "validatingwebhookconfiguration": true,
}

// TestResourcesAndFilesOfCommandsExist: our short names are declared, and what is
// applied is in the repository.
func TestResourcesAndFilesOfCommandsExist(t *testing.T) {
	declared := resources(t)
	for _, c := range commands(t) {
		where := c.where + ": kubectl " + strings.Join(c.args, " ")
		if c.args[0] == "get" && len(c.args) > 1 && !strings.HasPrefix(c.args[1], "-") {
			for name := range strings.SplitSeq(c.args[1], ",") {
				name, _, _ = strings.Cut(name, "/")
				if !builtin[name] && !declared[name] {
					t.Errorf("%s: there is no resource %s", where, name)
				}
			}
		}
		for _, arg := range c.args {
			if strings.HasPrefix(arg, "manifests/") {
				if _, err := os.Stat("../../" + arg); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			}
		}
	}
}

// resources are the names under which our kinds can be asked for.
func resources(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	files, err := filepath.Glob("../../manifests/base/crd/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no definitions", err)
	}
	names := regexp.MustCompile(`(?m)^    (?:plural|singular): (\S+)$|^    - (\S+)$`)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range names.FindAllStringSubmatch(string(raw), -1) {
			found[match[1]+match[2]] = true
		}
	}
	served := regexp.MustCompile(`(?:views\.Resource\(|Singular: |Short: +\[\]string\{)"([a-z]+)"`)
	files, err = filepath.Glob("../../pkg/registry/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no storage", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range served.FindAllStringSubmatch(string(raw), -1) {
			found[match[1]] = true
		}
	}
	return found
}
