package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

const exports = "../../pkg/inspect/testdata/"

// called runs the program under a name, with standard input, and returns its
// exit code and both outputs.
func called(t *testing.T, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr}
	code = run(t.Context(), args, streams)
	// The level outlives the run: klog has one per process.
	logging := flag.NewFlagSet("logging", flag.PanicOnError)
	klog.InitFlags(logging)
	if err := logging.Set("v", "0"); err != nil {
		t.Fatal(err)
	}
	return code, stdout.String(), stderr.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestExitCodes(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	sound, damaged := read(t, exports+"sound.yaml"), read(t, exports+"damaged.yaml")
	_, afterTemplate, found := strings.Cut(sound, "  kind: HAProxyTemplateConfig\n")
	if !found {
		t.Fatal("the export has no template")
	}
	halfExport := "apiVersion: v1\nkind: List\nitems:\n" + afterTemplate[strings.Index(afterTemplate, "\n- apiVersion")+1:]
	tests := []struct {
		name, stdin string
		args        []string
		want        int
		says        string
	}{
		{name: "everything is sound", stdin: sound, args: []string{"verify", "-f", "-"}, want: 0},
		{name: "everything is sound in two files", args: []string{"verify", "-f", exports + "sound.yaml", "--filename", exports + "sound.yaml"}, want: 0},
		{name: "something is damaged", stdin: damaged, args: []string{"verify", "-f", "-"}, want: 1},
		{name: "something is damaged, as JSON", stdin: damaged, args: []string{"verify", "-f", "-", "-o", "json"}, want: 1},
		{name: "half an export", stdin: halfExport, args: []string{"verify", "-f", "-"}, want: 2},
		{name: "nothing to judge", stdin: "", args: []string{"verify", "-f", "-"}, want: 2},
		{name: "the wrong namespace", stdin: sound, args: []string{"verify", "-f", "-", "-n", "other"}, want: 2},
		{name: "input that is none", stdin: "a: [", args: []string{"verify", "-f", "-"}, want: 3, says: "error: standard input is not readable"},
		{name: "a file that is not there", args: []string{"verify", "-f", "none.yaml"}, want: 3, says: "no such file"},
		{name: "two versions of everything", args: []string{"verify", "-f", exports + "sound.yaml", "-f", exports + "damaged.yaml"}, want: 3, says: "given twice"},
		{name: "no cluster", args: []string{"verify", "--request-timeout=1s", "--server=http://127.0.0.1:1"}, want: 3, says: "listing haproxycfgs"},
		{name: "an unknown flag", args: []string{"verify", "--none"}, want: 3, says: "See 'kubectl retained verify --help'"},
		{name: "an argument", args: []string{"verify", "edge.yaml"}, want: 3, says: "unknown command"},
		{name: "an unknown command", args: []string{"frobnicate"}, want: 3, says: "unknown command"},
		{name: "an unknown format", stdin: sound, args: []string{"verify", "-f", "-", "-o", "wide"}, want: 3, says: `"wide" is none of table, json, yaml, name`},
		{name: "all namespaces and one", stdin: sound, args: []string{"verify", "-f", "-", "-A", "-n", "edge"}, want: 3, says: "contradict"},
		{name: "a log level that would show keys", stdin: sound, args: []string{"verify", "-f", "-", "-v=8"}, want: 3, says: "-v goes up to 7"},
		{name: "help", args: []string{"verify", "--help"}, want: 0},
		{name: "a drill without pods", stdin: sound, args: []string{"drill", "-f", "-"}, want: 2},
		{name: "a drill of what is damaged", stdin: damaged, args: []string{"drill", "web", "-f", "-", "-o", "json"}, want: 1},
		{name: "a drill of no template", stdin: sound, args: []string{"drill", "none", "-f", "-"}, want: 3, says: "found no HAProxyTemplateConfig none"},
		{name: "a drill in an unknown format", stdin: sound, args: []string{"drill", "-f", "-", "-o", "yaml"}, want: 3, says: `"yaml" is none of table, json`},
		{name: "a drill at a log level that would show keys", stdin: sound, args: []string{"drill", "-f", "-", "-v=8"}, want: 3, says: "-v goes up to 7"},
		{name: "a drill without a cluster", args: []string{"drill", "--request-timeout=1s", "--server=http://127.0.0.1:1"}, want: 3, says: "listing haproxycfgs"},
		{name: "no command", want: 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errOut := called(t, tc.stdin, append([]string{"kubectl-retained"}, tc.args...)...)
			if code != tc.want {
				t.Errorf("exit code %d, want %d\n%s%s", code, tc.want, out, errOut)
			}
			if !strings.Contains(errOut, tc.says) {
				t.Errorf("standard error lacks %q:\n%s", tc.says, errOut)
			}
		})
	}
}

func TestUsageFollowsTheNameItIsCalledBy(t *testing.T) {
	tests := []struct{ path, want string }{
		{path: "/usr/local/bin/kubectl-retained", want: "kubectl retained verify [-f FILE|DIR|-]... [flags]"},
		{path: `kubectl-retained.exe`, want: "kubectl retained verify [-f FILE|DIR|-]... [flags]"},
		{path: "./retained", want: "retained verify [-f FILE|DIR|-]... [flags]"},
	}
	for _, tc := range tests {
		_, out, _ := called(t, "", tc.path, "verify", "--help")
		_, usage, _ := strings.Cut(out, "Usage:\n  ")
		usage, _, _ = strings.Cut(usage, "\n")
		if diff := cmp.Diff(tc.want, usage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.path, diff)
		}
	}
}

func TestCompletion(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{name: "commands", args: []string{"kubectl_complete-retained", "ver"}, want: "verify\tVerify checkpoints, from files or from the cluster\n:4\n"},
		{name: "formats", args: []string{"kubectl_complete-retained", "verify", "-o", ""}, want: "table\njson\nyaml\nname\n:4\n"},
		{name: "files", args: []string{"kubectl_complete-retained", "verify", "-f", ""}, want: ":0\n"},
		{name: "as a program of its own", args: []string{"retained", "__complete", "verify", "-o", "t"}, want: "table\njson\nyaml\nname\n:4\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, out, _ := called(t, "", tc.args...)
			if diff := cmp.Diff(tc.want, out); diff != "" || code != 0 {
				t.Errorf("exit code %d (-want +got):\n%s", code, diff)
			}
		})
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := called(t, "", "kubectl-retained", "completion", shell); code != 0 || out == "" {
			t.Errorf("completion for %s: exit code %d, %d bytes", shell, code, len(out))
		}
	}
}
