package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// TestEveryDocumentedCommandRuns: each "kubectl retained" of the documents and of the
// examples in help texts, over a cluster that holds the sound export, or over the
// files it names. An exit code of 3 says that it is no command.
func TestEveryDocumentedCommandRuns(t *testing.T) {
	server := exportServer(t)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	contexts := "apiVersion: v1\nkind: Config\ncontexts: [{name: production, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: " + server + "}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	texts := map[string]string{"README": fenced(read(t, "../../README.md"))}
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal("no documents", err)
	}
	for _, document := range documents {
		texts[filepath.Base(document)] = fenced(read(t, document))
	}
	code := 0
	for _, cmd := range newCommand("kubectl retained", genericiooptions.NewTestIOStreamsDiscard(), &code).Commands() {
		texts["help of "+cmd.Name()] = cmd.Example
	}
	sound, names := read(t, exports+"sound.yaml"), checksumsOf(t)
	known := strings.NewReplacer("4e61de13", names[1], "c37ac098", names[0], "drill edge", "drill web")
	run := map[string]bool{}
	for where, text := range texts {
		t.Run(where, func(t *testing.T) {
			t.Chdir(t.TempDir())
			layOut(t, sound)
			for _, command := range pluginCommands(text) {
				if strings.Contains(command, "--gate=cluster") {
					continue // it needs a cluster that runs Jobs
				}
				args := append([]string{"kubectl-retained"}, strings.Fields(known.Replace(command))...)
				if !slices.Contains(args, "-f") && args[1] != "completion" {
					args = append(args, "--server", server)
				}
				run[args[1]] = true
				exit, out, errOut := called(t, sound, args...)
				if exit == exitUnusable || out == "" && args[1] != "diff" {
					t.Errorf("kubectl retained %s: exit code %d\n%s%s", command, exit, out, errOut)
				}
			}
		})
	}
	for _, cmd := range newCommand("kubectl retained", genericiooptions.NewTestIOStreamsDiscard(), &code).Commands() {
		if !run[cmd.Name()] {
			t.Errorf("%s is documented nowhere", cmd.Name())
		}
	}
}

// layOut writes the files that documents speak of.
func layOut(t *testing.T, sound string) {
	t.Helper()
	if err := os.MkdirAll("backup/edge", 0o755); err != nil {
		t.Fatal(err)
	}
	nodes := "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
	for name, text := range map[string]string{"edge.yaml": sound, "backup/edge/all.yaml": sound, "nodes.yaml": nodes} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fenced is what stands in code blocks.
func fenced(document string) string {
	var text strings.Builder
	inside := false
	for line := range strings.Lines(document) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
		} else if inside {
			text.WriteString(line)
		}
	}
	return text.String()
}

// pluginCommands are the arguments of each "kubectl retained", without what a shell
// would take for itself.
func pluginCommands(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " #")
		for part := range strings.SplitSeq(strings.NewReplacer("&&", "|", "||", "|").Replace(line), "|") {
			command, isOurs := strings.CutPrefix(strings.TrimSpace(part), "kubectl retained ")
			if !isOurs {
				continue
			}
			command, _, _ = strings.Cut(command, " >")
			command, _, _ = strings.Cut(command, " <")
			found = append(found, command)
		}
	}
	return found
}

// exportServer is a cluster that holds the sound export in whatever namespace is
// asked for, and no aggregated API.
func exportServer(t *testing.T) string {
	t.Helper()
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := yaml.Unmarshal([]byte(read(t, exports+"sound.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		items := []any{}
		for _, item := range list.Items {
			if strings.ToLower(item["kind"].(string))+"s" == resource {
				items = append(items, item)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, views.GroupName) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "items": items}); err != nil {
			t.Errorf("answering: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
