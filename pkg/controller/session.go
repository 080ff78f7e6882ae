package controller

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
)

// eventSettings is the reason of the event on settings that cannot be used.
const eventSettings = "SettingsInvalid"

// session is the time during which the settings of terms stay the same. When
// they change, its term is drained and another session begins.
type session struct {
	key    string
	cancel context.CancelFunc
	// done gives the one error of the session, nil after a graceful stop.
	done chan error
}

// sessionKey is equal for templates that one election and one set of intervals
// serve.
func sessionKey(template *v1alpha1.HAProxyTemplateConfig) (string, error) {
	if template == nil {
		return "", nil
	}
	raw, err := json.Marshal([]any{template.UID, template.Spec.Controller, template.Spec.Dataplane})
	return string(raw), err
}

// follow holds a session for the template as it is, until ctx ends. A template
// that is not there yet, or no longer, is waited for. The process is ready from
// here on, unless somebody else leads the template.
func (c *Controller) follow(ctx context.Context) error {
	var running *session
	for {
		template := c.current()
		key, err := sessionKey(template)
		if err != nil {
			return fmt.Errorf("reading the template's settings: %w", err)
		}
		if running != nil && (running.key != key || ctx.Err() != nil) {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Info("Ended the session, the template is another or its settings are")
			}
			running.cancel()
			if err := <-running.done; err != nil {
				return err
			}
			running = nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if running == nil && template != nil {
			if err := c.readHolder(ctx, template); err != nil {
				return err
			}
			running = c.begin(ctx, key, template)
		}
		c.health.started()
		if running == nil && template == nil {
			c.health.set(componentElection, "the template does not exist")
			klog.FromContext(ctx).Info("Waited for the template to be created")
		}
		var ended chan error
		if running != nil {
			ended = running.done
		}
		select {
		case <-ctx.Done():
		case <-c.templateChanged:
		case err := <-ended:
			return err
		}
	}
}

// begin starts standing for election, or says why the settings do not allow it.
func (c *Controller) begin(ctx context.Context, key string, template *v1alpha1.HAProxyTemplateConfig) *session {
	sessionCtx, cancel := context.WithCancel(ctx)
	s := &session{key: key, cancel: cancel, done: make(chan error, 1)}
	l := &leader{Controller: c, template: template}
	e, err := election.New(
		election.SettingsFor(template, c.identity),
		c.kubernetes.CoordinationV1().Leases(c.options.Namespace),
		c.haptic.HapticV1alpha1().HAProxyTemplateConfigs(c.options.Namespace),
		l, c.electionMetrics)
	if err != nil {
		// Only another template can help. Waiting for it is what a session does.
		c.health.set(componentElection, err.Error())
		c.events.Event(template, corev1.EventTypeWarning, eventSettings, cutText(err.Error(), maxNoteBytes))
		klog.FromContext(ctx).Info("Stood for no election with these settings", "err", err)
		go func() {
			<-sessionCtx.Done()
			s.done <- nil
		}()
		return s
	}
	c.health.set(componentElection, "")
	go func() { s.done <- e.Run(sessionCtx) }()
	return s
}
