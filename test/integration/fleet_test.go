package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

const template = "edge"

func TestAChangedBackendReachesHAProxyAndBecomesTheNewestCheckpoint(t *testing.T) {
	before := mustNewest(t)
	kube(t, "-n", web, "scale", "deployment/blog", "--replicas=2")
	defer func() {
		kube(t, "-n", web, "scale", "deployment/blog", "--replicas=1")
		eventually(t, "one blog again", func(ctx context.Context) error { return answeredBy(ctx, "blog.example", 1) })
		eventually(t, "a recoverable checkpoint of it", recoverable)
	}()
	eventually(t, "both blog pods answer through every proxy", func(ctx context.Context) error {
		return answeredBy(ctx, "blog.example", 2)
	})
	eventually(t, "a new checkpoint is the newest, the old one its predecessor", func(ctx context.Context) error {
		return supersedes(ctx, before)
	})
}

func TestAChangedMapReachesHAProxyAndBecomesTheNewestCheckpoint(t *testing.T) {
	before := mustNewest(t)
	kube(t, "-n", web, "create", "ingress", "news", "--class=holdfast", "--rule=news.example/*=blog:http")
	defer func() {
		kube(t, "-n", web, "delete", "ingress", "news")
		eventually(t, "the original map's checkpoint", recoverable)
	}()
	eventually(t, "the new host is served", func(ctx context.Context) error {
		return answeredBy(ctx, "news.example", 1)
	})
	eventually(t, "a new checkpoint is the newest, the old one its predecessor", func(ctx context.Context) error {
		return supersedes(ctx, before)
	})
}

func TestATemplateErrorIsReportedAndNothingElseHappens(t *testing.T) {
	intentBefore := intentRecord(t)
	pods, err := proxies(t.Context())
	if err != nil || len(pods) == 0 {
		t.Fatalf("proxies %v, error %v", pods, err)
	}
	counters := agentCounters(t, pods[0])
	original := kube(t, "-n", fleet, "get", "haproxytemplateconfig", template, "-o", "jsonpath={.spec.haproxyConfig.template}")
	setMainTemplate(t, original+"\n{{ if }}\n")
	defer func() {
		setMainTemplate(t, original)
		eventually(t, "the template validates again", func(ctx context.Context) error { return validated(ctx, metav1.ConditionTrue) })
	}()

	eventually(t, "the condition says so", func(ctx context.Context) error { return validated(ctx, metav1.ConditionFalse) })
	eventually(t, "an event says so", func(ctx context.Context) error {
		out, err := tryKube(ctx, "-n", fleet, "get", "events", "--field-selector", "type=Warning,involvedObject.kind=HAProxyTemplateConfig", "-o", "jsonpath={.items[*].reason}")
		if err != nil {
			return err
		}
		if !strings.Contains(out, "TemplateInvalid") {
			return fmt.Errorf("warning events are %q, want TemplateInvalid", out)
		}
		return nil
	})
	if body, err := fetch(t.Context(), pods[0], "shop.example"); err != nil || !strings.Contains(body, "shop") {
		t.Errorf("the proxy stopped serving: %q, %v", body, err)
	}
	if after := intentRecord(t); after != intentBefore {
		t.Errorf("the intent changed from %s to %s", intentBefore, after)
	}
	if after := agentCounters(t, pods[0]); after != counters {
		t.Errorf("the agent was touched: before\n%s\nafter\n%s", counters, after)
	}
}

func TestAScaledFleetServesFromEveryPod(t *testing.T) {
	kube(t, "-n", fleet, "scale", "deployment/proxy", "--replicas=3")
	defer func() {
		kube(t, "-n", fleet, "scale", "deployment/proxy", "--replicas=2")
		eventually(t, "two proxies again", func(ctx context.Context) error { return readyProxies(ctx, 2) })
	}()
	eventually(t, "three proxies are ready", func(ctx context.Context) error { return readyProxies(ctx, 3) })
	eventually(t, "every one serves", func(ctx context.Context) error { return answeredBy(ctx, "shop.example", 2) })
}

func TestADeletedLeaderIsReplacedWithoutAReload(t *testing.T) {
	pods, err := proxies(t.Context())
	if err != nil || len(pods) == 0 {
		t.Fatalf("proxies %v, error %v", pods, err)
	}
	counters := agentCounters(t, pods[0])
	leader := holder(t)
	name, _, _ := strings.Cut(leader, "_")
	kube(t, "-n", fleet, "delete", "pod", name, "--wait=false")
	eventually(t, "another controller leads", func(context.Context) error {
		if now := holder(t); now == "" || now == leader {
			return fmt.Errorf("the holder is still %q", now)
		}
		return nil
	})
	eventually(t, "its intent is fenced and its checkpoint recoverable", func(ctx context.Context) error {
		out, err := tryKube(ctx, "-n", fleet, "get", "dintent", template, "-o", "json")
		if err != nil {
			return err
		}
		var intent views.DeploymentIntent
		if err := json.Unmarshal([]byte(out), &intent); err != nil {
			return err
		}
		return errors.Join(
			wantCondition(intent.Status.Conditions, views.ConditionFenced, metav1.ConditionTrue),
			wantCondition(intent.Status.Conditions, views.ConditionRecoverable, metav1.ConditionTrue))
	})
	if after := agentCounters(t, pods[0]); reloads(after) != reloads(counters) {
		t.Errorf("the change of leader reloaded a proxy: before\n%s\nafter\n%s", counters, after)
	}
}

// answeredBy wants every ready proxy to pass requests for a host on to exactly
// want different application pods.
func answeredBy(ctx context.Context, host string, want int) error {
	pods, err := proxies(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		names := map[string]bool{}
		for range 6 {
			body, err := fetch(ctx, p, host)
			if err != nil {
				return err
			}
			names[strings.TrimSpace(body)] = true
		}
		if len(names) != want {
			return fmt.Errorf("through proxy %s, %s is answered by %v, want %d pods", p.Name, host, names, want)
		}
	}
	return nil
}

func supersedes(ctx context.Context, before *views.RetainedCheckpoint) error {
	items, err := checkpoints(ctx)
	if err != nil {
		return err
	}
	positions := map[views.Position]views.RetainedCheckpoint{}
	for _, item := range items {
		positions[item.Status.Position] = item
	}
	now := positions[views.PositionNewest]
	if now.Name == before.Name {
		return fmt.Errorf("checkpoint %s is still the newest", before.Name)
	}
	if found := positions[views.PositionPredecessor].Name; found != before.Name {
		return fmt.Errorf("the predecessor is %q, want %q", found, before.Name)
	}
	return wantCondition(now.Status.Conditions, views.ConditionRecoverable, metav1.ConditionTrue)
}

func recoverable(ctx context.Context) error {
	found, err := newest(ctx)
	if err != nil {
		return err
	}
	return wantCondition(found.Status.Conditions, views.ConditionRecoverable, metav1.ConditionTrue)
}

func validated(ctx context.Context, status metav1.ConditionStatus) error {
	out, err := tryKube(ctx, "-n", fleet, "get", "haproxytemplateconfig", template, "-o", "json")
	if err != nil {
		return err
	}
	var config stored.HAProxyTemplateConfig
	if err := json.Unmarshal([]byte(out), &config); err != nil {
		return err
	}
	if config.Status.ObservedGeneration != config.Generation {
		return fmt.Errorf("generation %d is observed, want %d", config.Status.ObservedGeneration, config.Generation)
	}
	return wantCondition(config.Status.Conditions, stored.ConditionValidated, status)
}

func readyProxies(ctx context.Context, want int) error {
	pods, err := proxies(ctx)
	if err != nil {
		return err
	}
	ready := 0
	for _, p := range pods {
		if p.Ready {
			ready++
		}
	}
	if ready != want || len(pods) != want {
		return fmt.Errorf("%d of %d proxies are ready, want %d", ready, len(pods), want)
	}
	return nil
}

func holder(t *testing.T) string {
	t.Helper()
	return kube(t, "-n", fleet, "get", "lease", template+"-leader", "-o", "jsonpath={.spec.holderIdentity}")
}

func intentRecord(t *testing.T) string {
	t.Helper()
	return kube(t, "-n", fleet, "get", "lease", template+"-retained-state", "-o",
		"jsonpath={.metadata.annotations.haproxy-haptic\\.org/deployment-intent}")
}

func reloads(counters string) string {
	var kept []string
	for line := range strings.Lines(counters) {
		if strings.HasPrefix(line, "holdfast_agent_reloads_total") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func setMainTemplate(t *testing.T, text string) {
	t.Helper()
	patchSpec(t, map[string]any{"haproxyConfig": map[string]any{"template": text}})
}

func patchSpec(t *testing.T, spec map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	kube(t, "-n", fleet, "patch", "haproxytemplateconfig", template, "--type=merge", "-p", string(patch))
}
