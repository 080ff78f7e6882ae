package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// growing adds a file whose size an input decides. Digests do not compress well.
const growing = `[{"op": "add", "path": "/spec/files/filler.txt", "value": {"template": ` +
	`"{{- $inputs := first (resources \"inputs\") -}}\n{{ range until (int (index $inputs.data \"filler\" | default \"1\")) }}{{ sha256sum (toString .) }}{{ end }}\n"}}]`

// renderFailure is one way to make rendering fail.
type renderFailure struct {
	kind string
	// breaks makes it fail, and gives what repairs that.
	breaks func(s *stage) (repair func())
	// reason and names are what the template's status says.
	reason string
	names  []string
}

var renderFailures = []renderFailure{
	{kind: "template syntax", reason: "TemplateInvalid", names: []string{"haproxyConfig: line ", "missing value for if"},
		breaks: func(s *stage) func() {
			return s.editConfig(func(text string) string { return text + "{{ if }}\n" })
		}},
	{kind: "missing key", reason: "RenderFailed", names: []string{"haproxyConfig: line ", "$inputs.data.release", `"release"`},
		breaks: func(s *stage) func() {
			s.setInputs(map[string]any{"release": nil})
			return func() {} // the next release is the repair
		}},
	{kind: "unreachable critical source", reason: "InputUnavailable", names: []string{`critical httpResource "source"`, "connection refused"},
		breaks: breakSource},
	{kind: "source too large", reason: "TooLarge", names: []string{`critical httpResource "source"`, "the document has ", "the limit is 1024"},
		breaks: overfillSource},
	{kind: "oversize output", reason: "TooLarge", names: []string{"files/filler.txt", "can be stored"},
		breaks: func(s *stage) func() {
			s.setInput("filler", "60000")
			return func() { s.setInput("filler", "1") }
		}},
	{kind: "gate refusal", reason: "GateRefused", names: []string{"no-such-directive"},
		breaks: func(s *stage) func() {
			return s.editConfig(func(text string) string {
				return strings.Replace(text, "    maxconn 500\n", "    maxconn 500\n    no-such-directive\n", 1)
			})
		}},
	{kind: "watched kind forbidden", reason: "InputUnavailable", names: []string{`watched resource "services"`, "forbidden"},
		breaks: watchForbidden},
	{kind: "invalid certificate", reason: "GateRefused", names: []string{"ssl/web.pem"},
		breaks: func(s *stage) func() {
			return s.replaceCertificate([]byte("this is no certificate\n"))
		}},
}

// TestP1RenderFailuresKeepServing breaks rendering in each of these ways, one after
// the other, under load. The same controllers, never restarted, tell of each what
// is wrong, and go on with the next good input.
func TestP1RenderFailuresKeepServing(t *testing.T) {
	s := newStage(t, growing)
	s.setInput("filler", "1") // what is left of the inputs without a release
	controllers := s.incarnations(controllerName)
	proxies := s.pods.living(proxyName)
	l := s.startLoad(proxies)
	serving := firstRelease
	for i, failure := range renderFailures {
		next := fmt.Sprintf("v%d", i+2)
		began := time.Now()
		repair := failure.breaks(s)
		s.awaitTold(failure)
		note(t, failure.kind+": broken → told", time.Since(began))
		l.awaitRequests(s, loadRate)
		for _, pod := range proxies {
			if err := s.serves(t.Context(), pod, serving); err != nil {
				t.Errorf("%s: %v", failure.kind, err)
			}
		}
		l.check(t, failure.kind+", broken")

		began = time.Now()
		repair()
		s.setInput("release", next)
		s.awaitRelease(next, 2)
		note(t, failure.kind+": repaired → the next release is served", time.Since(began))
		s.await("nothing is told of "+failure.kind+" any more", func(ctx context.Context) error {
			text, err := s.blockedBy(ctx, 0)
			if err == nil && text != "" {
				err = fmt.Errorf("/healthz still says %q", text)
			}
			return err
		})
		serving = next
		l.check(t, failure.kind+", repaired")
	}
	l.end()
	l.check(t, "the end")
	if diff := cmp.Diff(controllers, s.incarnations(controllerName)); diff != "" {
		t.Errorf("controllers were restarted (-before +after):\n%s", diff)
	}
}

// awaitTold waits until an event, the template's condition and the leader's
// health tell of the failure, and requires them to name what is at fault.
func (s *stage) awaitTold(failure renderFailure) {
	s.t.Helper()
	text := s.event(failure.reason, failure.names...)
	s.t.Logf("%s: event %s: %s", failure.kind, failure.reason, text)
	s.await(failure.kind+" is told", func(ctx context.Context) error {
		template, err := s.haptic.HapticV1alpha1().HAProxyTemplateConfigs(s.namespace).Get(ctx, templateName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		validated := meta.FindStatusCondition(template.Status.Conditions, v1alpha1.ConditionValidated)
		if validated == nil || validated.Status != metav1.ConditionFalse || validated.Reason != failure.reason {
			return fmt.Errorf("condition %v, want False with %s", validated, failure.reason)
		}
		health, err := s.blockedBy(ctx, 1)
		if err != nil {
			return err
		}
		for _, name := range failure.names {
			if !strings.Contains(validated.Message, name) || !strings.Contains(health, name) {
				return fmt.Errorf("the condition says %q and /healthz %q, want both to name %q", validated.Message, health, name)
			}
		}
		return nil
	})
}

// blockedBy is what the leader's health says of rendering, when its gauge shows
// that.
func (s *stage) blockedBy(ctx context.Context, gauge int) (string, error) {
	leader, err := s.leader(ctx)
	if err != nil {
		return "", err
	}
	if err := s.wantSample(ctx, leader, fmt.Sprintf("%s %d", blockedMetric, gauge)); err != nil {
		return "", err
	}
	return s.renderError(ctx, leader)
}

// incarnations are the containers of these pods, with their restarts.
func (s *stage) incarnations(name string) map[string]int32 {
	found := map[string]int32{}
	for _, pod := range s.pods.living(name) {
		for _, container := range pod.Status.ContainerStatuses {
			found[string(pod.UID)+"/"+container.Name] = container.RestartCount
		}
	}
	return found
}
