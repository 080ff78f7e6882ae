package acceptance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/publish"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// TestRetainedConfigurationChecksCurrentHAProxy leaves what an installation has
// whose HAProxy was replaced by one that knows a directive no more: a complete,
// acknowledged checkpoint with nbproc, and proxies that all start anew.
func TestRetainedConfigurationChecksCurrentHAProxy(t *testing.T) {
	s := newStage(t)
	s.block()
	s.stopAll(controllerDeployment, controllerName)
	s.stopAll(proxyDeployment, proxyName)
	output := s.earlierOutput()
	s.retain(output)

	s.scale(controllerDeployment, 2)
	s.scale(proxyDeployment, 1)
	added := s.newProxy(nil)
	s.refused(added, "GateRefused", output.Checksum(), "nbproc")

	began := time.Now()
	s.source.repair()
	note(t, "repaired → replacement Ready", s.awaitServing(added, firstRelease).Sub(began))
}

// earlierOutput renders the template with nbproc. No gate has seen it.
func (s *stage) earlierOutput() *checkpoint.Output {
	s.t.Helper()
	const anchor = "    maxconn 500\n"
	template := s.template.DeepCopy()
	text := template.Spec.HAProxyConfig.Template
	if !strings.Contains(text, anchor) {
		s.t.Fatalf("the template lacks the line %q", anchor)
	}
	template.Spec.HAProxyConfig.Template = strings.Replace(text, anchor, anchor+"    nbproc 2\n", 1)
	return s.renderOf(template)
}

func (s *stage) kind(object runtime.Object) render.Kind {
	s.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		s.t.Fatal(err)
	}
	return render.Kind{Objects: []*unstructured.Unstructured{{Object: content}}}
}

// retain publishes the output as a controller does after a receipt, and records
// it as the intent. No controller runs meanwhile.
func (s *stage) retain(output *checkpoint.Output) {
	s.t.Helper()
	leases := s.core.CoordinationV1().Leases(s.namespace)
	lease, err := leases.Get(s.t.Context(), checkpoint.RetainedStateLeaseName(templateName), metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	intent := record.RetainedLease(lease).Intent.Intent
	intent.PlanID, intent.Checksum = output.Plan.ID, output.Checksum()
	if _, err := leases.Update(s.t.Context(), record.WithIntent(lease, intent), metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}

	publisher := publish.New(publish.SettingsFor(s.template), publish.NewClients(s.haptic, s.core, s.namespace),
		quietTerm{intent}, publish.NewMetrics(prometheus.NewRegistry()))
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		publisher.Run(ctx)
	}()
	defer func() {
		stop()
		<-done
	}()
	publisher.Accepted(output, 1)
	publisher.Deployed(output, 1, checkpoint.PodEntry{
		PodName: "gone", PodUID: "gone", PodRuntimeID: "1-1", Mode: "reload",
		Checksum: output.Checksum(), AppliedPlanID: output.Plan.ID, RunningPlanID: output.Plan.ID,
	})
	if err := publisher.Flush(ctx); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.intended(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// quietTerm is a term that nobody contests.
type quietTerm struct{ intent fencing.Intent }

func (quietTerm) Check(context.Context) error                      { return nil }
func (q quietTerm) Intent(context.Context) (fencing.Intent, error) { return q.intent, nil }
