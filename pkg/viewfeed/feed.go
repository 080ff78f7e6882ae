package viewfeed

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// Config is what a feed needs.
type Config struct {
	Client Client
	// Namespaces to stream. Empty means all of them.
	Namespaces []string
	// WithoutSecrets never asks for a Secret.
	WithoutSecrets bool
	Views          *Views
	Metrics        *Metrics
}

// Feed keeps views up to date.
type Feed struct {
	live
	metrics *Metrics
	engine  *engine
	tasks   workqueue.TypedRateLimitingInterface[task]
}

// New returns a feed that does nothing before Run.
func New(config Config) *Feed {
	f := &Feed{
		live:    live{client: config.Client},
		metrics: config.Metrics,
		tasks: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[task](retryMin, retryMax),
			workqueue.TypedRateLimitingQueueConfig[task]{Name: "liveReads"},
		),
	}
	f.engine = newEngine(config.Views, config.Metrics, f.tasks.Add)
	namespaces := config.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		for _, kind := range kinds {
			if kind.name == v1alpha1.KindSecret && config.WithoutSecrets {
				continue
			}
			src := &source{
				kind: kind.name, example: kind.example, namespace: namespace, needed: kind.needed,
				client: config.Client, engine: f.engine,
			}
			f.engine.sources = append(f.engine.sources, src)
			f.engine.settle(src, waiting)
		}
	}
	return f
}

// Ready returns nil once the first round of verification is through, else what
// it waits for.
func (f *Feed) Ready() error { return f.engine.readiness() }

// Run streams and verifies until ctx ends, and returns when every goroutine of
// the feed is gone. It can be called once.
func (f *Feed) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("viewfeed"))
	var running sync.WaitGroup
	for _, src := range f.engine.sources {
		running.Go(func() { src.run(ctx) })
	}
	for range readers {
		running.Go(func() {
			for {
				t, shutdown := f.tasks.Get()
				if shutdown {
					return
				}
				f.work(ctx, t)
			}
		})
	}
	klog.FromContext(ctx).Info("Started to stream stored objects", "streams", len(f.engine.sources))
	<-ctx.Done()
	f.tasks.ShutDown()
	running.Wait()
}
