package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/generated/informers/externalversions"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/httpsource"
	"github.com/holdfast-project/holdfast/pkg/controller/render"
)

// kindsRetry is how often stored kinds that are not installed are looked for.
const kindsRetry = 5 * time.Second

// storedResources must all be served before anything is watched.
var storedResources = []string{
	"haproxycfgs", "haproxycrtlistfiles", "haproxygeneralfiles", "haproxymapfiles", "haproxytemplateconfigs",
}

// awaitKinds waits until every stored kind is installed, and says which are not.
// Then accept is asked, again and again until it agrees or refuses for good.
func (c *Controller) awaitKinds(ctx context.Context, accept func(context.Context, []metav1.APIResource) error) error {
	last := ""
	for {
		served, err := c.findKinds(ctx)
		if err == nil {
			err = accept(ctx, served)
		}
		var refused *RefusalError
		if err == nil || errors.As(err, &refused) {
			return err
		}
		if problem := err.Error(); problem != last {
			last = problem
			c.health.set(componentStart, problem)
			klog.FromContext(ctx).Info("Waited for the stored kinds; are the project's CRDs installed?", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(kindsRetry):
		}
	}
}

// findKinds gives everything that is served in our group.
func (c *Controller) findKinds(ctx context.Context) ([]metav1.APIResource, error) {
	ctx, cancel := context.WithTimeout(ctx, kindsRetry)
	defer cancel()
	version := v1alpha1.SchemeGroupVersion.String()
	list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, version)
	if err != nil {
		return nil, fmt.Errorf("stored kinds of %s: %w", version, err)
	}
	var missing []string
	for _, name := range storedResources {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("stored kinds of %s are not installed: %s", version, strings.Join(missing, ", "))
	}
	return list.APIResources, nil
}

// watch starts everything that outlives terms. What it started has ended when
// the returned function has.
func (c *Controller) watch(ctx, life context.Context) (stop func(), err error) {
	life, cancel := context.WithCancel(life)
	var wg sync.WaitGroup
	stop = func() {
		cancel()
		wg.Wait()
	}
	c.inputs = render.NewInputs(life, render.InputsConfig{
		Client: c.dynamic, Discovery: c.discovery, Namespace: c.options.Namespace, Changed: c.changed.raise,
	})
	c.documents = httpsource.New(life, httpsource.Config{
		Changed: c.changed.raise, Metrics: c.documentMetrics, Transport: c.documentTransport,
	})
	only := fields.OneTermEqualSelector("metadata.name", c.options.Template).String()
	template := externalversions.NewSharedInformerFactoryWithOptions(c.haptic, 0,
		externalversions.WithNamespace(c.options.Namespace),
		externalversions.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = only }),
	).Haptic().V1alpha1().HAProxyTemplateConfigs().Informer()
	pods := informers.NewSharedInformerFactoryWithOptions(c.kubernetes, 0,
		informers.WithNamespace(c.options.Namespace), informers.WithTransform(forgetMost),
	).Core().V1().Pods()
	c.fleet = &fleet{pods: pods.Lister().Pods(c.options.Namespace), template: c.current, port: c.options.AgentPort}

	if _, err := template.AddEventHandler(c.templateHandler(life)); err != nil {
		return stop, err
	}
	if _, err := pods.Informer().AddEventHandler(c.podHandler()); err != nil {
		return stop, err
	}
	for _, informer := range []cache.SharedIndexInformer{template, pods.Informer()} {
		wg.Go(func() { informer.RunWithContext(life) })
	}
	c.health.set(componentStart, "the template and the pods are not read yet")
	if !cache.WaitForCacheSync(ctx.Done(), template.HasSynced, pods.Informer().HasSynced) && ctx.Err() == nil {
		return stop, errors.New("watches ended before they began")
	}
	return stop, nil
}

// templateHandler keeps the newest template, with the watches it asks for.
func (c *Controller) templateHandler(ctx context.Context) cache.ResourceEventHandler {
	take := func(template *v1alpha1.HAProxyTemplateConfig) {
		before := c.current()
		news := template == nil || before == nil || before.UID != template.UID || before.Generation != template.Generation
		if news {
			// First the watches, so that no render meets a template whose inputs
			// nobody has begun to read.
			var spec v1alpha1.HAProxyTemplateConfigSpec
			if template != nil {
				spec = template.Spec
			}
			// The next render says the same to the template's owner.
			if err := c.inputs.Update(spec.WatchedResources); err != nil {
				klog.FromContext(ctx).V(2).Info("Kept the previous watches", "err", err)
			}
			if err := c.documents.Update(spec.HTTPResources); err != nil {
				klog.FromContext(ctx).V(2).Info("Kept the previous documents", "err", err)
			}
			c.documents.Retry()
		}
		c.mu.Lock()
		c.template = template
		c.mu.Unlock()
		if news {
			c.templateChanged.raise()
			c.changed.raise()
			c.wakeTerm()
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { take(asTemplate(object)) },
		UpdateFunc: func(_, object any) { take(asTemplate(object)) },
		DeleteFunc: func(any) { take(nil) },
	}
}

func asTemplate(object any) *v1alpha1.HAProxyTemplateConfig {
	template, _ := object.(*v1alpha1.HAProxyTemplateConfig)
	return template
}

// podHandler wakes the term for what could make a pod due. Readiness, which
// changes most often, does not.
func (c *Controller) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.wakeTerm() },
		UpdateFunc: func(before, after any) {
			old, isOld := before.(*corev1.Pod)
			pod, isPod := after.(*corev1.Pod)
			if !isOld || !isPod || old.Status.PodIP != pod.Status.PodIP || old.Status.Phase != pod.Status.Phase ||
				incarnation(old) != incarnation(pod) || (old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) {
				c.wakeTerm()
			}
		},
		DeleteFunc: func(any) { c.wakeTerm() },
	}
}

// wakeTerm makes the running term look at the fleet again.
func (c *Controller) wakeTerm() {
	if w := c.work.Load(); w != nil {
		w.deployer.Wake()
		w.recovery.Wake()
	}
}
