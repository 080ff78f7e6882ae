package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// Two templates of HAPTIC side by side, of which one was upgraded. The older
// one's Lease has the name that HAPTIC gives by default.
const (
	olderTemplate, olderLease = "older", "haptic-leader"
	newerTemplate, newerLease = "newer", "newer-election"
	newerRetained             = "newer-retained-state"
)

// TestAuditOnlyBesideHAPTIC: the API server alone shows what HAPTIC stored in
// either form, and kube-apiserver has noted no write of it: none at all with one
// replica, and none but to its own Lease and EndpointSlice with two.
func TestAuditOnlyBesideHAPTIC(t *testing.T) {
	besideHAPTIC(t, "create", "--field-manager=helm")
	giveCertificates(t, system, map[string]string{"holdfast-apiserver-serving": "holdfast-apiserver." + system + ".svc"})
	kube(t, "create", "namespace", hapticNamespace)
	older := (&hapticRelease{t: t, template: olderTemplate}).store()
	newer := (&hapticRelease{t: t, template: newerTemplate, leaseName: newerLease, shared: true}).store()
	wanted := []wantedView{
		{template: olderTemplate, checkpoint: older, source: views.LeaseReference{Name: olderLease, Role: "LeaderElection"}},
		{template: newerTemplate, checkpoint: newer, shared: true, source: views.LeaseReference{Name: newerRetained, Role: "RetainedState"}},
	}
	before := hapticObjects(t)

	t.Run("one replica shows both forms and writes nothing", func(t *testing.T) {
		auditOnly(t)
		showAll(t, wanted)
		seeDamage(t, wanted[1])
		wantWrites(t, account)
	})
	t.Run("two replicas write their own Lease and EndpointSlice", func(t *testing.T) {
		auditOnly(t, "components/high-availability")
		forgetOneReplica(t)
		showAll(t, wanted)
		kube(t, "-n", system, "rollout", "restart", "deployment/holdfast-apiserver")
		rollOut(t)
		showAll(t, wanted)
		seeDamage(t, wanted[0])
		wantWrites(t, account,
			"update leases "+system+"/holdfast-apiserver", "update endpointslices "+system+"/holdfast-apiserver-active")
	})
	// The log is one that has such entries: the test's own writes are there, and
	// the server's questions, which are creates in form.
	if questions := askedBy(t, account).reviews; questions["subjectaccessreviews"] == 0 {
		t.Errorf("the audit log has no question of the API server: %v", questions)
	}
	if own := askedBy(t, "devcluster-admin").writes; own["create leases "+hapticNamespace+"/"+newerRetained] != 1 {
		t.Errorf("the audit log misses a write of the test: %v", own)
	}
	if after := hapticObjects(t); after != before {
		t.Errorf("HAPTIC's objects before:\n%s\nand after:\n%s", before, after)
	}
}

// auditOnly applies the overlay, with components, and waits until it serves.
func auditOnly(t *testing.T, components ...string) {
	t.Helper()
	file, _ := written(t, kustomized(t, []string{"overlays/audit-only"}, components))
	kube(t, "apply", "--server-side", "-f", file)
	trustServing(t)
	rollOut(t)
	kube(t, "wait", "--for=condition=Available", "--timeout=60s", "apiservice/v1alpha1.retained.haproxy-haptic.org")
}

// hapticObjects names everything of HAPTIC with its version, but for what the
// test itself damages and repairs.
func hapticObjects(t *testing.T) string {
	t.Helper()
	return kube(t, "-n", hapticNamespace, "get", "haproxytemplateconfigs,haproxycfgs,haproxygeneralfiles,haproxycrtlistfiles,secrets,leases",
		"-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
}

// wantedView is what must be shown of one template.
type wantedView struct {
	template, checkpoint string
	shared               bool
	source               views.LeaseReference
}

func showAll(t *testing.T, wanted []wantedView) {
	t.Helper()
	for _, w := range wanted {
		eventually(t, "the views of template "+w.template+" are right", w.shown)
	}
}

func hapticView(ctx context.Context, resource, name string, into any) error {
	out, err := tryKube(ctx, "-n", hapticNamespace, "get", resource, name, "-o", "json")
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

func (w wantedView) shown(ctx context.Context) error {
	var found views.RetainedCheckpoint
	if err := hapticView(ctx, "retainedcheckpoints", w.checkpoint, &found); err != nil {
		return err
	}
	var problems []error
	for _, kind := range []string{
		views.ConditionVerified, views.ConditionPromoted, views.ConditionAcknowledged, views.ConditionIntended, views.ConditionRecoverable,
	} {
		problems = append(problems, wantCondition(found.Status.Conditions, kind, metav1.ConditionTrue))
	}
	if found.Status.Template.Name != w.template || found.Status.Position != views.PositionNewest || found.Status.Evidence == "" || len(found.Status.Artifacts) != 8 {
		problems = append(problems, fmt.Errorf("template %q, position %q, evidence %q, %d artifacts",
			found.Status.Template.Name, found.Status.Position, found.Status.Evidence, len(found.Status.Artifacts)))
	}
	for _, a := range found.Status.Artifacts {
		if a.Shared != w.shared || a.Verdict != "Verified" {
			problems = append(problems, fmt.Errorf("artifact %s: shared %t, verdict %s", a.Path, a.Shared, a.Verdict))
		}
	}
	return errors.Join(append(problems, w.intentShown(ctx))...)
}

func (w wantedView) intentShown(ctx context.Context) error {
	var found views.DeploymentIntent
	if err := hapticView(ctx, "deploymentintents", w.template, &found); err != nil {
		return err
	}
	var problems []error
	for _, kind := range []string{views.ConditionReadable, views.ConditionFenced, views.ConditionCheckpointed, views.ConditionRecoverable} {
		problems = append(problems, wantCondition(found.Status.Conditions, kind, metav1.ConditionTrue))
	}
	// HAPTIC stores nothing that says whether a recovery is in force.
	problems = append(problems, wantCondition(found.Status.Conditions, views.ConditionActive, metav1.ConditionUnknown))
	if found.Status.Source == nil || *found.Status.Source != w.source || found.Status.Checkpoint != w.checkpoint {
		problems = append(problems, fmt.Errorf("source %+v and checkpoint %q, want %+v and %q",
			found.Status.Source, found.Status.Checkpoint, w.source, w.checkpoint))
	}
	return errors.Join(problems...)
}

// seeDamage changes a stored map and puts it right again: the server that writes
// nothing is one that works.
func seeDamage(t *testing.T, w wantedView) {
	t.Helper()
	var found views.RetainedCheckpoint
	if err := hapticView(t.Context(), "retainedcheckpoints", w.checkpoint, &found); err != nil {
		t.Fatal(err)
	}
	name := artifactOf(t, &found, "Map").Object.Name
	raw := kube(t, "-n", hapticNamespace, "get", "haproxymapfile", name, "-o", "jsonpath={.spec.entries}")
	patch := func(entries string) {
		text, err := json.Marshal(map[string]any{"spec": map[string]any{"entries": entries}})
		if err != nil {
			t.Fatal(err)
		}
		kube(t, "-n", hapticNamespace, "patch", "haproxymapfile", name, "--type=merge", "-p", string(text))
	}
	patch("tampered 1\n")
	eventually(t, "the damage is shown", func(ctx context.Context) error {
		var damaged views.RetainedCheckpoint
		if err := hapticView(ctx, "retainedcheckpoints", w.checkpoint, &damaged); err != nil {
			return err
		}
		return errors.Join(
			wantCondition(damaged.Status.Conditions, views.ConditionVerified, metav1.ConditionFalse),
			wantCondition(damaged.Status.Conditions, views.ConditionRecoverable, metav1.ConditionFalse))
	})
	patch(raw)
	showAll(t, []wantedView{w})
}
