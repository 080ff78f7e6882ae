package render

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// ErrNotSynced says that a watched kind has not been read completely yet. It
// usually passes by itself.
var ErrNotSynced = errors.New("not read completely yet")

// Discovery tells what a group version serves. The discovery client is one.
type Discovery interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// InputsConfig is what Inputs need.
type InputsConfig struct {
	Client    dynamic.Interface
	Discovery Discovery
	// Namespace is where a resource without namespaces is watched.
	Namespace string
	// Changed is called, often, when a snapshot might differ. It must not block.
	Changed func()
}

// Inputs holds what a template watches, and nothing else.
type Inputs struct {
	config InputsConfig
	ctx    context.Context
	wg     sync.WaitGroup

	mu      sync.Mutex
	watches map[string]*watch
}

// NewInputs watches nothing yet. Everything it starts ends with ctx.
func NewInputs(ctx context.Context, config InputsConfig) *Inputs {
	return &Inputs{config: config, ctx: ctx, watches: map[string]*watch{}}
}

// Wait returns when all watches have ended, after ctx has.
func (i *Inputs) Wait() { i.wg.Wait() }

// Update watches exactly these resources. Those that stay the same go on
// without a new list.
func (i *Inputs) Update(resources map[string]v1alpha1.WatchedResource) error {
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if err := checkResource(name, resources[name]); err != nil {
			return err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, w := range i.watches {
		if want, ok := resources[name]; !ok || !sameWatch(w.resource, want) {
			w.cancel()
			delete(i.watches, name)
		}
	}
	for name, resource := range resources {
		if w, ok := i.watches[name]; ok {
			w.resource.IndexBy = slices.Clone(resource.IndexBy)
			continue
		}
		ctx, cancel := context.WithCancel(i.ctx)
		w := &watch{name: name, resource: *resource.DeepCopy(), config: i.config, cancel: cancel}
		i.watches[name] = w
		i.wg.Go(func() { w.run(ctx) })
	}
	return nil
}

// Snapshot is what every watched resource holds now. It fails, naming the
// resource, while one is not known completely: half an input could be a valid
// template for a configuration that serves half.
func (i *Inputs) Snapshot(ctx context.Context) (Snapshot, error) {
	i.mu.Lock()
	watches := maps.Clone(i.watches)
	indexBy := make(map[string][]string, len(watches))
	for name, w := range watches {
		indexBy[name] = w.resource.IndexBy
	}
	i.mu.Unlock()
	out := make(Snapshot, len(watches))
	for _, name := range slices.Sorted(maps.Keys(watches)) {
		objects, err := watches[name].objects(ctx)
		if err != nil {
			return nil, &Error{Reason: ReasonInputUnavailable, Err: fmt.Errorf("watched resource %q (%s %s): %w",
				name, watches[name].resource.APIVersion, watches[name].resource.Resources, err)}
		}
		out[name] = Kind{IndexBy: indexBy[name], Objects: objects}
	}
	return out, nil
}

// sameWatch compares what a watch asks the server for.
func sameWatch(a, b v1alpha1.WatchedResource) bool {
	a.IndexBy, b.IndexBy = nil, nil
	return reflect.DeepEqual(a, b)
}

func checkResource(name string, r v1alpha1.WatchedResource) error {
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		return invalid("", "watched resource %q: labelSelector: %w", name, err)
	}
	if _, err := fieldselector.ParseSelector(r.FieldSelector); err != nil {
		return invalid("", "watched resource %q: fieldSelector: %w", name, err)
	}
	if slices.Contains(r.Namespaces, "*") && len(r.Namespaces) > 1 {
		return invalid("", "watched resource %q: \"*\" stands for all namespaces and must be alone", name)
	}
	if strings.Contains(r.Resources, "/") {
		return invalid("", "watched resource %q: %q is a subresource", name, r.Resources)
	}
	return nil
}
