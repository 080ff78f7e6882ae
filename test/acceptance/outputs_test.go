package acceptance

import (
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

// stateWithPlan is the state that an apply is made from.
var stateWithPlan = client.StateOptions{Verify: true}

// renderNow is what a controller would render, with these inputs changed.
func (s *stage) renderNow(inputs ...string) *checkpoint.Output {
	s.t.Helper()
	return s.renderOf(s.template, inputs...)
}

// renderOf renders a template from what the namespace holds.
func (s *stage) renderOf(template *v1alpha1.HAProxyTemplateConfig, inputs ...string) *checkpoint.Output {
	s.t.Helper()
	renderer, err := render.Compile(template)
	if err != nil {
		s.t.Fatal(err)
	}
	read, err := s.core.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), "inputs", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(inputs); i += 2 {
		read.Data[inputs[i]] = inputs[i+1]
	}
	secret, err := s.core.CoreV1().Secrets(s.namespace).Get(s.t.Context(), "web-tls", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	output, err := renderer.With(map[string]string{sourceName: sourceText}).Render(s.t.Context(), render.Snapshot{
		"inputs": s.kind(read), "certificates": s.kind(secret),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return output
}

// target addresses a pod's agent on behalf of a template.
func (s *stage) target(pod *corev1.Pod, templateUID string) client.Target {
	return client.Target{
		PodName: pod.Name, PodUID: string(pod.UID), TemplateUID: templateUID,
		Address: net.JoinHostPort(pod.Status.PodIP, "9444"),
	}
}

// applyOf is the request that brings a pod from where it is to the output, under
// the next token.
func applyOf(output *checkpoint.Output, at *api.State) (client.ApplyRequest, error) {
	blob, err := output.Plan.Marshal()
	if err != nil {
		return client.ApplyRequest{}, fmt.Errorf("encoding the plan: %w", err)
	}
	parts := map[string][]byte{api.ConfigPath: output.Configuration}
	for _, a := range output.Artifacts {
		parts[a.RuntimePath] = a.Content
	}
	request := client.ApplyRequest{Plan: blob, Parts: parts, Held: at.Files, Before: at, Manifest: api.Manifest{
		IdentityVersion: api.IdentityVersion, PlanID: output.Plan.ID, PlanProof: api.PlanProof(blob), PlanSchemaVersion: api.PlanSchemaVersion,
		Token:              api.Token{LeaderEpoch: max(1, at.EpochFloor), RenderSeq: at.AppliedToken.RenderSeq + 1},
		ExpectedPrevPlanID: at.AppliedPlanID, ExpectedPrevPlanProof: at.AppliedPlanProof, ExpectedPrevToken: at.AppliedToken,
		Mode: api.ModeReload,
	}}
	for _, f := range output.Plan.Files {
		spec := api.FileSpec{Path: f.Path, Kind: f.Kind, ReloadOnChange: f.ReloadOnChange}
		request.Manifest.Files = append(request.Manifest.Files, api.Declare(spec, parts[f.Path]))
	}
	return request, nil
}
