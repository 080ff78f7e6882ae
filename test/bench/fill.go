package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// fillers is how many checkpoints are written at once.
const fillers = 8

// fill stores the template and its checkpoints in a namespace, unless they are
// there already.
func (c *cluster) fill(ctx context.Context, namespace string, s shape) error {
	if c.filled[namespace] {
		return nil
	}
	outputs, err := newOutputs(ctx, s)
	if err != nil {
		return err
	}
	template := outputs.template.DeepCopy()
	template.Namespace = namespace
	template, err = c.stored.HapticV1alpha1().HAProxyTemplateConfigs(namespace).Create(ctx, template, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("storing the template: %w", err)
	}
	sample, err := outputs.render(ctx, 0)
	if err != nil {
		return err
	}
	say("  storing %d checkpoints in %s: %d bytes of configuration, %d files", c.checkpoints, namespace, len(sample.Configuration), len(sample.Artifacts))
	writers, ctx := errgroup.WithContext(ctx)
	writers.SetLimit(fillers)
	var done atomic.Int64
	p := progress{what: "checkpoints stored", total: c.checkpoints}
	for generation := range c.checkpoints {
		// Written by this loop alone.
		p.at(int(done.Load()))
		writers.Go(func() error {
			defer done.Add(1)
			return c.store(ctx, template, outputs, generation)
		})
	}
	if err := writers.Wait(); err != nil {
		return err
	}
	c.filled[namespace] = true
	return nil
}

// store writes one checkpoint as a publisher does: files, the object, and then
// references and receipt in one status write.
func (c *cluster) store(ctx context.Context, template *v1alpha1.HAProxyTemplateConfig, outputs *outputs, generation int) error {
	output, err := outputs.render(ctx, generation)
	if err != nil {
		return err
	}
	set, err := newStoredSet(template, output)
	if err != nil {
		return err
	}
	haptic, namespace := c.stored.HapticV1alpha1(), template.Namespace
	for _, o := range set.maps {
		if _, err := haptic.HAProxyMapFiles(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("storing a map: %w", err)
		}
	}
	for _, o := range set.files {
		if _, err := haptic.HAProxyGeneralFiles(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("storing a general file: %w", err)
		}
	}
	for _, o := range set.secrets {
		if _, err := c.core.CoreV1().Secrets(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("storing a certificate: %w", err)
		}
	}
	created, err := haptic.HAProxyCfgs(namespace).Create(ctx, set.checkpoint, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("storing a checkpoint: %w", err)
	}
	created.Status = set.checkpoint.Status
	if _, err := haptic.HAProxyCfgs(namespace).UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("storing the references of a checkpoint: %w", err)
	}
	return nil
}
