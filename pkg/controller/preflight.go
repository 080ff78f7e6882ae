package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
)

// maxUnjudged is how often in a row the kinds may be served and stay undescribed
// before the controller goes on without having judged them: half a minute. A
// fleet that needs its controller must not depend on a description.
const maxUnjudged = 6

// preflight waits until the stored kinds are there, and refuses them when they
// are another product's. It returns the refusal or the context's error.
func (c *Controller) preflight(ctx context.Context) error {
	unjudged := 0
	return c.awaitKinds(ctx, func(ctx context.Context, served []metav1.APIResource) error {
		err := c.readDefinitions(ctx, served)
		var refused *RefusalError
		if err == nil || errors.As(err, &refused) {
			return err
		}
		if unjudged++; unjudged < maxUnjudged && !apierrors.IsForbidden(err) {
			return err
		}
		klog.FromContext(ctx).Info("Went on without knowing whose the custom resource definitions are", "err", err)
		return nil
	})
}

// readDefinitions judges what the API server says of the kinds of our group. It
// needs no more rights than discovery does, which every client has.
func (c *Controller) readDefinitions(ctx context.Context, served []metav1.APIResource) error {
	ctx, cancel := context.WithTimeout(ctx, kindsRetry)
	defer cancel()
	path := "/openapi/v3/apis/" + v1alpha1.SchemeGroupVersion.String()
	document, err := c.kubernetes.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("reading the API server's description of the stored kinds: %w", err)
	}
	return judgeDefinitions(served, document)
}

// readPods judges the namespace's pods, which have been read by now.
func (c *Controller) readPods() error {
	pods, err := c.fleet.pods.List(labels.Everything())
	if err != nil {
		return nil // a store in memory does not fail to list
	}
	return judgePods(pods)
}

// readHolder judges the Lease that the template would be led by. A Lease that
// cannot be read now is read again by the election, which waits for its holder.
func (c *Controller) readHolder(ctx context.Context, template *v1alpha1.HAProxyTemplateConfig) error {
	settings := election.SettingsFor(template, c.identity)
	if settings.Standalone {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kindsRetry)
	defer cancel()
	lease, err := c.kubernetes.CoordinationV1().Leases(c.options.Namespace).Get(ctx, settings.LeaseName, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).V(2).Info("Stood for election without knowing the Lease's holder", "lease", settings.LeaseName, "err", err)
		}
		return nil
	}
	return judgeHolder(lease, time.Now())
}
