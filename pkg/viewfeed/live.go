package viewfeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

const (
	// readers is how many live reads run at once, which bounds the content in
	// memory: each holds one file at a time.
	readers = 4
	// readTimeout bounds one task, however many files it reads.
	readTimeout = 2 * time.Minute
	// borrowedRecheck is how soon a change is noticed of an object that no
	// stream has.
	borrowedRecheck = 30 * time.Second
	// Bounds of the pause before a failed read is tried again.
	retryMin, retryMax = 100 * time.Millisecond, 30 * time.Second
)

// task is a live read: of a checkpoint with all its files if kind says so,
// else of one child.
type task struct {
	namespace, kind, name string
}

func (t task) label() string {
	if t.kind == v1alpha1.KindCfg {
		return "checkpoint"
	}
	return "child"
}

// reading is what a stream of a checkpoint's bytes must find: the bytes that
// the evidence is of.
type reading struct {
	facts         *checkpoint.CheckpointFacts
	evidence      string
	configuration string
	files         map[checkpoint.Descriptor]fileReading
}

type fileReading struct {
	key      childKey
	checksum string
}

func newReading(facts *checkpoint.CheckpointFacts, verdict *checkpoint.Verdict, evidence string) *reading {
	if verdict.Configuration == nil {
		return nil
	}
	r := &reading{
		facts:         facts,
		evidence:      evidence,
		configuration: verdict.Configuration.FileChecksum(),
		files:         map[checkpoint.Descriptor]fileReading{},
	}
	for i := range verdict.Artifacts {
		artifact := &verdict.Artifacts[i]
		r.files[artifact.Descriptor] = fileReading{childKey{artifact.Kind, artifact.Object}, artifact.Checksum}
	}
	return r
}

// errChanged says that live bytes are not those that a verdict was about. The
// stream brings the change, or has brought it already.
var errChanged = errors.New("what is stored changed while it was read")

// live reads stored objects beside the streams.
type live struct {
	client Client
}

// contentChecksum streams the bytes of a reading, one file at a time.
func (l live) contentChecksum(ctx context.Context, namespace string, r *reading) (string, error) {
	configuration, err := l.Configuration(ctx, namespace, r.facts.Name)
	if err != nil {
		return "", err
	}
	if checkpoint.FileChecksum(configuration) != r.configuration {
		return "", fmt.Errorf("the configuration: %w", errChanged)
	}
	return checkpoint.StreamContentChecksum(r.facts, configuration, func(d checkpoint.Descriptor) ([]byte, error) {
		file := r.files[d]
		child, err := l.child(ctx, namespace, file.key)
		if err != nil {
			return nil, err
		}
		content, err := checkpoint.Load(child.Text, child.Compressed, nil)
		if err != nil {
			return nil, fmt.Errorf("decoding %s %s: %w", file.key.kind, file.key.name, err)
		}
		if checkpoint.FileChecksum(content) != file.checksum {
			return nil, fmt.Errorf("%s %s: %w", file.key.kind, file.key.name, errChanged)
		}
		return content, nil
	})
}

// Configuration returns the configuration text of a checkpoint.
func (l live) Configuration(ctx context.Context, namespace, name string) ([]byte, error) {
	obj, err := l.client.Get(ctx, v1alpha1.KindCfg, namespace, name)
	if err != nil {
		return nil, err
	}
	cfg, ok := obj.(*v1alpha1.HAProxyCfg)
	if !ok {
		return nil, fmt.Errorf("checkpoint %s came as a %T", name, obj)
	}
	content, err := checkpoint.Load(cfg.Spec.Content, cfg.Spec.Compressed, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding the configuration of %s: %w", name, err)
	}
	return content, nil
}

// File returns the content of the object that stores a file, but never of a Secret.
func (l live) File(ctx context.Context, namespace, kind, object string) ([]byte, error) {
	if kind == v1alpha1.KindSecret {
		return nil, apierrors.NewForbidden(corev1.Resource("secrets"), object, errors.New("content of Secrets is never served"))
	}
	child, err := l.child(ctx, namespace, childKey{kind, object})
	if err != nil {
		return nil, err
	}
	content, err := checkpoint.Load(child.Text, child.Compressed, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", kind, object, err)
	}
	return content, nil
}

func (l live) child(ctx context.Context, namespace string, key childKey) (*checkpoint.StoredChild, error) {
	obj, err := l.client.Get(ctx, key.kind, namespace, key.name)
	if err != nil {
		return nil, err
	}
	switch o := obj.(type) {
	case *v1alpha1.HAProxyMapFile:
		return record.MapFile(o), nil
	case *v1alpha1.HAProxyGeneralFile:
		return record.GeneralFile(o), nil
	case *v1alpha1.HAProxyCRTListFile:
		return record.CRTListFile(o), nil
	case *corev1.Secret:
		return record.Secret(o), nil
	}
	return nil, fmt.Errorf("%s %s came as a %T, which stores no file", key.kind, key.name, obj)
}

// work handles one task and says what to do with it next.
func (f *Feed) work(ctx context.Context, t task) {
	defer f.tasks.Done(t)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	outcome, err := f.attempt(ctx, t)
	f.metrics.LiveReads.WithLabelValues(t.label(), outcome).Inc()
	if err != nil {
		logger := klog.FromContext(ctx)
		if !apierrors.IsForbidden(err) {
			logger = logger.V(2)
		}
		logger.Info("Live read failed, will retry", "kind", t.kind, "object", klog.KRef(t.namespace, t.name), "err", err)
		f.tasks.AddRateLimited(t)
	} else {
		f.tasks.Forget(t)
		if f.engine.isUnstreamed(t) {
			f.tasks.AddAfter(t, borrowedRecheck)
		}
	}
	f.engine.attempted(t)
}

func (f *Feed) attempt(ctx context.Context, t task) (outcome string, err error) {
	if t.kind == v1alpha1.KindCfg {
		err = f.stream(ctx, t)
	} else {
		err = f.read(ctx, t)
	}
	switch {
	case err == nil:
		return "ok", nil
	case apierrors.IsNotFound(err):
		// An answer too: the stream says the same sooner or later.
		return "absent", nil
	case errors.Is(err, errChanged):
		return "changed", err
	}
	return "failed", err
}

// stream finds out the content checksum of a checkpoint.
func (f *Feed) stream(ctx context.Context, t task) error {
	wanted := f.engine.readingOf(t)
	if wanted == nil {
		return nil
	}
	checksum, err := f.contentChecksum(ctx, t.namespace, wanted)
	if err != nil {
		return err
	}
	f.engine.remember(t, wanted, checksum)
	return nil
}

// read finds out about a child that a checkpoint references and no stream has.
func (f *Feed) read(ctx context.Context, t task) error {
	if !f.engine.isWanted(t) {
		return nil
	}
	obj, err := f.client.Get(ctx, t.kind, t.namespace, t.name)
	if apierrors.IsNotFound(err) {
		f.engine.missing(t)
		return err
	}
	if err != nil {
		return err
	}
	s, err := ingest(obj)
	if err != nil {
		return err
	}
	f.engine.borrow(s)
	return nil
}
