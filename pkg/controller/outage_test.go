package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// fetching is a template that cannot do without a document.
func fetching() v1alpha1.HAProxyTemplateConfigSpec {
	spec := version(1)
	spec.HAProxyConfig.Template = "global\n  default-path config\n# {{ http \"list\" }}\n"
	spec.HTTPResources = map[string]v1alpha1.HTTPResource{"list": {
		URL: "https://user:secret@lists.example.org/list?token=secret", Critical: true, Interval: &metav1.Duration{Duration: 10 * time.Second},
	}}
	return spec
}

// condition is one of the template's, as status, reason and message.
func (in *installation) condition(kind string) []string {
	in.t.Helper()
	template, err := in.haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace).Get(in.t.Context(), tplName, metav1.GetOptions{})
	in.must(err)
	found := meta.FindStatusCondition(template.Status.Conditions, kind)
	if found == nil {
		return nil
	}
	return []string{string(found.Status), found.Reason, found.Message}
}

// ADR-0033, "Verification": a critical HTTP source is blocked, and the leader's
// accepted content goes with its process.
func TestAnOutageOfACriticalDocumentEndsNoPod(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		source := newWorld()
		source.answers = map[string]string{"/list": "one"}
		in.documents = source
		old := in.addPod()
		in.set(fetching())
		first := in.start("c1")
		pass(30 * time.Second)
		intent := in.intent()
		loaded := []string{"rendered " + intent.PlanID}
		expect := func(what string, p *proxyPod, want []string) {
			t.Helper()
			if diff := cmp.Diff(want, p.loaded()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("the first output", old, loaded)

		// A standby that has fetched the document goes on with it.
		second := in.start("c2")
		pass(5 * time.Second)
		source.answer(func() { source.answers = nil })
		first.end()
		pass(time.Minute)
		fresh := in.addPod()
		pass(30 * time.Second)
		expect("the old pod under the standby", old, loaded)
		expect("a new pod under the standby", fresh, loaded)
		wantCondition := []string{"False", reasonNotCurrent, `httpResource "list" (https://lists.example.org/list?…): not fetched: connection refused; content sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed stays in use`}
		if diff := cmp.Diff(wantCondition, in.condition(v1alpha1.ConditionHTTPResources)); diff != "" {
			t.Errorf("condition under the standby (-want +got):\n%s", diff)
		}

		// A new process has nothing, so new pods start from the checkpoint.
		in.start("c3")
		second.end()
		pass(time.Minute)
		cause := `critical httpResource "list" (https://lists.example.org/list?…): never fetched: connection refused`
		if diff := cmp.Diff([]string{"False", "InputUnavailable", cause}, in.condition(v1alpha1.ConditionValidated)); diff != "" {
			t.Errorf("condition under a new process (-want +got):\n%s", diff)
		}
		replacement := in.addPod()
		pass(30 * time.Second)
		expect("the old pod during the outage", old, loaded)
		expect("a new pod during the outage", replacement, []string{"recovered " + intent.PlanID})

		source.answer(func() { source.answers = map[string]string{"/list": "two"} })
		now := in.intent()
		if now.PlanID == intent.PlanID {
			t.Fatal("the new content is not the intent")
		}
		expect("the old pod after the repair", old, append(loaded, "rendered "+now.PlanID))
		if got := in.condition(v1alpha1.ConditionHTTPResources); len(got) == 0 || got[0] != "True" {
			t.Errorf("condition after the repair: %v", got)
		}
		for _, r := range in.server.Objects("events") {
			if note, _ := r["message"].(string); strings.Contains(note, "secret") {
				t.Errorf("an event tells a credential: %s", note)
			}
		}
	})
}
