package viewfeed

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const (
	// absentRetry is how soon a kind is noticed after its installation.
	absentRetry = 5 * time.Second
	// failedRetry is the pause after an answer that says nothing about the kind.
	failedRetry = time.Second
	// absentAnswers is how often in a row a kind that was there must be missing
	// before its objects count as gone: an API server that restarts may not know
	// every kind at once.
	absentAnswers = 3
)

// kinds lists what is streamed, with an example object of each. Children come
// first only for the reader; all start at once.
var kinds = []struct {
	name    string
	example runtime.Object
	// needed kinds must be readable before anything can be said at all.
	needed bool
}{
	{v1alpha1.KindMapFile, &v1alpha1.HAProxyMapFile{}, false},
	{v1alpha1.KindGeneralFile, &v1alpha1.HAProxyGeneralFile{}, false},
	{v1alpha1.KindCRTListFile, &v1alpha1.HAProxyCRTListFile{}, false},
	{v1alpha1.KindSecret, &corev1.Secret{}, false},
	{KindLease, &coordinationv1.Lease{}, false},
	{v1alpha1.KindTemplateConfig, anyTemplate(), true},
	{v1alpha1.KindCfg, &v1alpha1.HAProxyCfg{}, true},
}

// anyTemplate is an object of the one kind that is read without a schema.
func anyTemplate() *unstructured.Unstructured {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindTemplateConfig))
	return template
}

// state is what is known of a stream.
type state string

const (
	waiting   state = "waiting"
	streaming state = "streaming"
	absent    state = "absent"
	forbidden state = "forbidden"
)

// source streams the objects of one kind, in one namespace or in all, into
// the engine.
type source struct {
	kind      string
	example   runtime.Object
	namespace string
	needed    bool
	client    Client
	engine    *engine
}

func (s *source) String() string {
	if s.namespace == "" {
		return s.kind
	}
	return s.kind + " in namespace " + s.namespace
}

// run streams until ctx ends. A kind that is not installed, or not permitted,
// is said once and looked for again; a reflector would fail and log for ever.
func (s *source) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("kind", s.kind, "namespace", s.namespace)
	ctx = klog.NewContext(ctx, logger)
	// A kind that never was there is believed at once.
	missing := absentAnswers - 1
	for ctx.Err() == nil {
		_, err := s.client.List(ctx, s.kind, s.namespace, s.selected(metav1.ListOptions{Limit: 1}))
		pause := failedRetry
		switch {
		case err == nil:
			missing = 0
			s.stream(ctx)
			continue
		case isAbsent(err):
			pause = absentRetry
			if missing++; missing >= absentAnswers && s.engine.unreadable(s, absent) {
				logger.Info("Stored kind is not installed, going on without it")
			}
		case apierrors.IsForbidden(err):
			if s.engine.unreadable(s, forbidden) {
				logger.Info("Reading is not permitted", "err", err)
			}
		default:
			logger.V(2).Info("Reading failed, will retry", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// isAbsent tells a missing kind. Lists of an installed kind never answer 404.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// stream runs a reflector until ctx ends or the kind is no longer readable.
func (s *source) stream(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lost := func(err error) {
		if isAbsent(err) || apierrors.IsForbidden(err) {
			stop()
		}
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := s.client.List(ctx, s.kind, s.namespace, s.selected(opts))
			lost(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := s.client.Watch(ctx, s.kind, s.namespace, s.selected(opts))
			lost(err)
			return w, err
		},
	}
	logger := klog.FromContext(ctx)
	cache.NewReflectorWithOptions(lw, s.example, &store{source: s}, cache.ReflectorOptions{
		Name: "viewfeed", TypeDescription: s.kind, Logger: &logger,
	}).RunWithContext(ctx)
}

// selected narrows a request to what can matter. All Secrets of a namespace
// are nobody's business, and nodes renew Leases all the time.
func (s *source) selected(opts metav1.ListOptions) metav1.ListOptions {
	switch s.kind {
	case v1alpha1.KindSecret:
		opts.LabelSelector = v1alpha1.LabelType
	case KindLease:
		if s.namespace == "" {
			opts.FieldSelector = fields.OneTermNotEqualSelector("metadata.namespace", corev1.NamespaceNodeLease).String()
		}
	}
	return opts
}

// store receives what a reflector reads, one event after another.
type store struct {
	source *source
}

var (
	_ cache.ReflectorStore    = (*store)(nil)
	_ cache.TransformingStore = (*store)(nil)
)

// Transformer drops bytes before even the reflector keeps them.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return ingest(obj) }
}

// Add takes an object that appeared.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update takes an object that changed.
func (s *store) Update(obj any) error {
	fact, err := ingest(obj)
	if err != nil {
		return err
	}
	s.source.engine.put(fact)
	return nil
}

// Delete takes an object that is gone.
func (s *store) Delete(obj any) error {
	gone, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("deleted object of kind %s: %w", s.source.kind, err)
	}
	s.source.engine.remove(s.source.kind, gone.GetNamespace(), gone.GetName())
	return nil
}

// Replace takes everything there is.
func (s *store) Replace(objects []any, _ string) error {
	facts := make([]*seen, 0, len(objects))
	for i, obj := range objects {
		fact, err := ingest(obj)
		if err != nil {
			return err
		}
		facts = append(facts, fact)
		// Let go of the bytes one by one where the reflector still had them.
		objects[i] = nil
	}
	s.source.engine.replace(s.source, facts)
	return nil
}

// Resync has nothing to do: nothing is derived but through events.
func (s *store) Resync() error { return nil }
