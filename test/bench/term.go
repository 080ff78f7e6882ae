package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
)

// termLimit bounds what is done in one term.
const termLimit = 2 * time.Minute

// newTemplate stores a template of which only name and UID matter.
func (c *cluster) newTemplate(ctx context.Context, o *outputs, name string) (*v1alpha1.HAProxyTemplateConfig, error) {
	template := o.template.DeepCopy()
	template.Namespace, template.Name = termNamespace, name
	template, err := c.stored.HapticV1alpha1().HAProxyTemplateConfigs(termNamespace).Create(ctx, template, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("storing template %s: %w", name, err)
	}
	return template, nil
}

// lead wins a real term for a template and does something in it, with requests
// counted as in counting.
func (c *cluster) lead(ctx context.Context, template *v1alpha1.HAProxyTemplateConfig, do func(context.Context, *election.Term) error) error {
	core, err := kubernetes.NewForConfig(counting(c.config))
	if err != nil {
		return fmt.Errorf("making a counting client: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, termLimit)
	defer stop()
	l := &leader{do: do, stop: stop, err: fmt.Errorf("no term within %s", termLimit)}
	e, err := election.New(election.SettingsFor(template, election.NewIdentity("bench")),
		core.CoordinationV1().Leases(termNamespace), c.stored.HapticV1alpha1().HAProxyTemplateConfigs(termNamespace),
		l, election.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		return err
	}
	// The election's own log lines are not about the measurement.
	if err := e.Run(klog.NewContext(ctx, klog.Logger{})); err != nil {
		return err
	}
	return l.err
}

// leader does one thing in its first term and stops the election.
type leader struct {
	do   func(context.Context, *election.Term) error
	stop context.CancelFunc
	err  error
}

// Announce has no agent to tell.
func (*leader) Announce(context.Context, uint64) []uint64 { return nil }

// Drain has nothing under way.
func (*leader) Drain(context.Context, *election.Term) {}

// Lead does it.
func (l *leader) Lead(ctx context.Context, term *election.Term) {
	defer l.stop()
	l.err = l.do(ctx, term)
}
