package aggregation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

var update = flag.Bool("update", false, "rewrite what kubectl is expected to print")

// questions are what people type, by the file that holds the answer.
var questions = map[string]string{
	"get":                "get rckpt -n edge",
	"get-wide":           "get rckpt -n edge -o wide",
	"get-all":            "get rckpt -A",
	"get-sorted":         "get rckpt -n edge --sort-by=.metadata.creationTimestamp",
	"get-labelled":       "get rckpt -n edge -l haproxy-haptic.org/template-config=web",
	"get-labels":         "get rckpt -n edge --show-labels",
	"get-name":           "get rckpt -n edge -o name",
	"get-json":           "get rckpt -n edge -o json",
	"get-yaml":           "get rckpt -n edge -o yaml",
	"get-jsonpath":       `get rckpt -n edge -o jsonpath={range.items[*]}{.status.checksum}={.status.conditions[?(@.type=="Verified")].reason}{"\n"}{end}`,
	"describe":           "describe rckpt -n edge",
	"explain":            "explain rckpt",
	"explain-recursive":  "explain rckpt --recursive",
	"explain-status":     "explain rckpt.status",
	"explain-artifacts":  "explain rckpt.status.artifacts",
	"intent-get":         "get dintent -n edge",
	"intent-wide":        "get dintent -n edge -o wide",
	"intent-yaml":        "get dintent -n edge -o yaml",
	"intent-explain":     "explain dintent",
	"intent-explain-all": "explain dintent --recursive",
}

// TestP19KubectlShowsEverythingInEveryForm: the answers are files, so that a change
// of what people see is seen in a review.
func TestP19KubectlShowsEverythingInEveryForm(t *testing.T) {
	serve(t, "")
	sound, soundMap := store(t, "sound")
	damaged, damagedMap := store(t, "damaged")
	tamper(t, damagedMap, "tampered 1\n")
	eventually(t, "both are judged", settle, verdicts(map[string]string{sound: "True", damaged: "False"}))
	eventually(t, "the schema has arrived", settle, func(ctx context.Context) error {
		_, err := tryKube(ctx, "explain", "rckpt")
		return err
	})
	names := strings.NewReplacer(soundMap, "MAP-OF-SOUND", damagedMap, "MAP-OF-DAMAGED", string(templateUID(t)), "UID-OF-TEMPLATE")
	for name, question := range questions {
		t.Run(name, func(t *testing.T) {
			got := steady(names.Replace(kube(t, strings.Split(question, " ")...)))
			if strings.Contains(got, "<unknown>") || strings.Contains(got, "<no description>") || strings.Contains(got, "<empty>") {
				t.Errorf("kubectl %s does not know everything:\n%s", question, got)
			}
			compare(t, filepath.Join("testdata", name+".txt"), got)
		})
	}
	t.Run("the age is that of what is stored", func(t *testing.T) {
		const made = "jsonpath={.metadata.creationTimestamp}"
		if view, object := kube(t, "get", "rckpt", sound, "-n", edge, "-o", made), kube(t, "get", "hpcfg", sound, "-n", edge, "-o", made); view != object || view == "" {
			t.Errorf("the view was made %q, the stored object %q", view, object)
		}
	})
	t.Run("nothing is said as kubectl says it", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), owncluster.Binary("kubectl"), "get", "rckpt", "-n", edge, "-l", "no=thing").CombinedOutput()
		if err != nil || string(out) != "No resources found in edge namespace.\n" {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("a watch shows changes below one header", func(t *testing.T) { watchedChanges(t, damaged, damagedMap) })
}

// verdicts complains unless checkpoints are judged so.
func verdicts(want map[string]string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		out, err := tryKube(ctx, "get", "rckpt", "-n", edge, "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Verified")].status}{"\n"}{end}`)
		got := map[string]string{}
		for line := range strings.Lines(out) {
			name, verdict, _ := strings.Cut(strings.TrimSpace(line), " ")
			got[name] = verdict
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("verdicts (-want +got):\n%s", diff)
		}
		return err
	}
}

// tamper changes a stored map.
func tamper(t *testing.T, name, entries string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"entries":%q}}`, entries)
	if _, err := stored(t).HAProxyMapFiles(edge).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// changing is what differs from run to run, and what it is shown as.
var changing = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`([rR]esource ?[vV]ersion"?: +"?)\d+`), "${1}VERSION"},
	// Ages of one and of two digits take the same room.
	{regexp.MustCompile(`(?m)\b\d{1,2}s +`), "AGE   "},
	{regexp.MustCompile(`(?m)\b\d{1,2}s$`), "AGE"},
}

func steady(text string) string {
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.shown)
	}
	return text
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// watchedChanges repairs and damages what is watched.
func watchedChanges(t *testing.T, name, file string) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, owncluster.Binary("kubectl"), "get", "rckpt", name, "-n", edge, "-w", "-o", "wide", "--show-labels")
	printed := &log{}
	cmd.Stdout = printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }() // it is ended by being killed
	awaitLast := func(verdict string) {
		eventually(t, "the last line shows "+verdict, settle, func(context.Context) error {
			lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
			if !slices.Contains(strings.Fields(lines[len(lines)-1]), verdict) {
				return fmt.Errorf("it does not:\n%s", printed)
			}
			return nil
		})
	}
	awaitLast("ChecksumMismatch")
	tamper(t, file, "damaged.example web\n")
	awaitLast("Verified")
	tamper(t, file, "tampered 1\n")
	awaitLast("ChecksumMismatch")
	lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
	columns := len(strings.Fields(lines[0]))
	for i, line := range lines {
		if len(strings.Fields(line)) != columns || (i == 0) != strings.HasPrefix(line, "NAME ") {
			t.Errorf("line %d is no row below the one header:\n%s", i, printed)
		}
	}
}
