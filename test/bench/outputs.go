package main

import (
	"context"
	_ "embed" // the template
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

//go:embed template.yaml
var templateText []byte

// shape is how large the outputs of one benchmark are.
type shape struct {
	configurationBytes int
	backends           int
	// blocked are the lines, of about 64 bytes, of one general file; more is how
	// many further files like it there are.
	blocked, more int
}

// Shapes of stored checkpoints. Backends are so many that a plan is of usual
// size for its configuration.
var (
	largeShape = shape{configurationBytes: 64 << 10, backends: 64, blocked: 32}
	smallShape = shape{configurationBytes: 16 << 10, backends: 16, blocked: 32}
)

// outputs renders the outputs of one shape.
type outputs struct {
	shape
	template *v1alpha1.HAProxyTemplateConfig
	rules    int
}

// newOutputs finds out how many rules make the configuration as large as wanted.
func newOutputs(ctx context.Context, s shape) (*outputs, error) {
	template := &v1alpha1.HAProxyTemplateConfig{}
	if err := yaml.UnmarshalStrict(templateText, template); err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	o := &outputs{shape: s, template: template}
	var sizes [2]int
	for rules := range sizes {
		o.rules = rules
		rendered, err := o.render(ctx, 0)
		if err != nil {
			return nil, err
		}
		sizes[rules] = len(rendered.Configuration)
	}
	o.rules = max((s.configurationBytes-sizes[0])/(sizes[1]-sizes[0]), 0)
	return o, nil
}

// render is the output of one generation.
func (o *outputs) render(ctx context.Context, generation int) (*checkpoint.Output, error) {
	values, err := json.Marshal(map[string]int{
		"generation": generation, "rules": o.rules, "backends": o.backends, "blocked": o.blocked,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the values of generation %d: %w", generation, err)
	}
	template := o.template.DeepCopy()
	for i := range o.more {
		template.Spec.Files[fmt.Sprintf("blocklist-%03d.acl", i)] = template.Spec.Files["blocklist.acl"]
	}
	template.Spec.TemplatingSettings.ExtraContext = &runtime.RawExtension{Raw: values}
	renderer, err := render.Compile(template)
	if err != nil {
		return nil, fmt.Errorf("compiling the template: %w", err)
	}
	output, err := renderer.Render(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("rendering generation %d: %w", generation, err)
	}
	return output, nil
}
