package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// verdictLimit is how soon a watcher must hear of a changed byte. The test
// prints what it took; the product's own target is far below.
const verdictLimit = time.Second

func TestTheNewestCheckpointVerifiesAndWouldBeUsed(t *testing.T) {
	found := mustNewest(t)
	for _, kind := range []string{
		views.ConditionVerified, views.ConditionPromoted, views.ConditionAcknowledged,
		views.ConditionIntended, views.ConditionRecoverable,
	} {
		if err := wantCondition(found.Status.Conditions, kind, metav1.ConditionTrue); err != nil {
			t.Error(err)
		}
	}
	families := map[string]bool{}
	for _, a := range found.Status.Artifacts {
		families[a.Family] = true
	}
	for _, family := range []string{"Map", "General", "Certificate"} {
		if !families[family] {
			t.Errorf("the checkpoint holds no artifact of family %s: %+v", family, found.Status.Artifacts)
		}
	}
	table := kube(t, "get", "retainedcheckpoints", "-A")
	for _, want := range []string{"NAMESPACE", "NAME", "VERIFIED", "RECOVERABLE", "AGE", found.Name} {
		if !strings.Contains(table, want) {
			t.Errorf("kubectl get retainedcheckpoints -A shows no %q:\n%s", want, table)
		}
	}
}

func TestTheIntentNamesTheNewestCheckpoint(t *testing.T) {
	found := mustNewest(t)
	var list views.DeploymentIntentList
	if err := json.Unmarshal([]byte(kube(t, "get", "deploymentintents", "-A", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("got %d deployment intents, want the demo's one", len(list.Items))
	}
	status := list.Items[0].Status
	if status.Intent == nil || status.Intent.PlanID != found.Status.PlanID || status.Intent.Checksum != found.Status.Checksum {
		t.Errorf("intent %+v does not name checkpoint %s (plan %s, checksum %s)",
			status.Intent, found.Name, found.Status.PlanID, found.Status.Checksum)
	}
	for _, kind := range []string{views.ConditionReadable, views.ConditionFenced, views.ConditionCheckpointed, views.ConditionRecoverable} {
		if err := wantCondition(status.Conditions, kind, metav1.ConditionTrue); err != nil {
			t.Error(err)
		}
	}
	if err := wantCondition(status.Conditions, views.ConditionActive, metav1.ConditionFalse); err != nil {
		t.Error(err)
	}
}

func TestATamperedMapChangesTheVerdictAtAWatcherAndRepairChangesItBack(t *testing.T) {
	found := mustNewest(t)
	artifact := artifactOf(t, found, "Map")
	var file stored.HAProxyMapFile
	raw := kube(t, "-n", fleet, "get", "haproxymapfile", artifact.Object.Name, "-o", "json")
	if err := json.Unmarshal([]byte(raw), &file); err != nil {
		t.Fatal(err)
	}

	events := watchCheckpoint(t, found.Name)
	patched := patchEntries(t, file.Name, "tampered 1\n")
	damaged := awaitVerdict(t, events, metav1.ConditionFalse)
	report(t, "a tampered map reached the watcher", patched, damaged.at)
	verified := condition(damaged.Status.Conditions, views.ConditionVerified)
	if verified.Reason == "" || !strings.Contains(verified.Message, file.Name) && !strings.Contains(verified.Message, artifact.Path) {
		t.Errorf("reason %q, message %q does not name the file %s (%s)", verified.Reason, verified.Message, file.Name, artifact.Path)
	}
	if err := wantCondition(damaged.Status.Conditions, views.ConditionRecoverable, metav1.ConditionFalse); err != nil {
		t.Error(err)
	}

	patched = patchEntries(t, file.Name, file.Spec.Entries)
	repaired := awaitVerdict(t, events, metav1.ConditionTrue)
	report(t, "its repair reached the watcher", patched, repaired.at)
}

func TestP19ExplainDescribesEveryField(t *testing.T) {
	for _, resource := range []string{"retainedcheckpoints", "deploymentintents"} {
		for _, path := range []string{resource, resource + ".status"} {
			out := kube(t, "explain", path, "--recursive=false", "--api-version=retained.haproxy-haptic.org/v1alpha1")
			if strings.Contains(out, "<no description>") || !strings.Contains(out, "FIELDS:") {
				t.Errorf("kubectl explain %s leaves a field unexplained:\n%s", path, out)
			}
		}
	}
	for _, field := range []string{"artifacts", "artifacts.verdict", "configuration.sha256", "receipt.pod", "conditions", "position"} {
		out := kube(t, "explain", "retainedcheckpoints.status."+field, "--api-version=retained.haproxy-haptic.org/v1alpha1")
		if strings.Contains(out, "<no description>") || strings.Contains(out, "<empty>") {
			t.Errorf("kubectl explain retainedcheckpoints.status.%s says nothing:\n%s", field, out)
		}
	}
}

func artifactOf(t *testing.T, c *views.RetainedCheckpoint, family string) views.ArtifactStatus {
	t.Helper()
	for _, a := range c.Status.Artifacts {
		if a.Family == family && a.Object != nil {
			return a
		}
	}
	t.Fatalf("checkpoint %s has no stored artifact of family %s", c.Name, family)
	return views.ArtifactStatus{}
}

// patchEntries returns when kubectl had its answer.
func patchEntries(t *testing.T, name, entries string) time.Time {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"entries": entries}})
	if err != nil {
		t.Fatal(err)
	}
	kube(t, "-n", fleet, "patch", "haproxymapfile", name, "--type=merge", "-p", string(patch))
	return time.Now()
}

// seen is one view at a watcher, and when it came.
type seen struct {
	views.RetainedCheckpoint
	at time.Time
}

// watchCheckpoint streams what `kubectl get -w` prints of one checkpoint.
func watchCheckpoint(t *testing.T, name string) <-chan seen {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := cluster(ctx, "kubectl", "-n", fleet, "get", "rckpt", name, "-w", "-o", "json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	events := make(chan seen, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		decoder := json.NewDecoder(stdout)
		for {
			var c views.RetainedCheckpoint
			if err := decoder.Decode(&c); err != nil {
				if err != io.EOF && ctx.Err() == nil {
					t.Errorf("reading the watch: %v", err)
				}
				return
			}
			select {
			case events <- seen{RetainedCheckpoint: c, at: time.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = cmd.Wait() // the watch ends by being stopped
	})
	awaitVerdict(t, events, metav1.ConditionTrue)
	return events
}

func awaitVerdict(t *testing.T, events <-chan seen, status metav1.ConditionStatus) seen {
	t.Helper()
	timeout := time.NewTimer(settle)
	defer timeout.Stop()
	last := error(nil)
	for {
		select {
		case c, open := <-events:
			if !open {
				t.Fatalf("the watch ended while Verified %s was awaited: %v", status, last)
			}
			if last = wantCondition(c.Status.Conditions, views.ConditionVerified, status); last == nil {
				return c
			}
		case <-timeout.C:
			t.Fatalf("no event with Verified %s within %s: %v", status, settle, last)
		}
	}
}

// report prints how long after kubectl's answer to the patch the watcher heard
// of it, which is negative when the watcher was first.
func report(t *testing.T, what string, patched, heard time.Time) {
	t.Helper()
	took := heard.Sub(patched)
	fmt.Printf("integration: %s %d ms after the patch was answered\n", what, took.Milliseconds())
	if took > verdictLimit {
		t.Errorf("%s %s after the patch was answered, want within %s", what, took, verdictLimit)
	}
}
