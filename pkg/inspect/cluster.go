package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

const (
	// pageSize bounds one answer of the API server to some 150 MiB at worst.
	pageSize = 100
	// Requests per second: a reference may need a read of its own.
	readsPerSecond, readsAtOnce = 50, 100
)

// resources are the kinds that are read, checkpoints first: whatever a
// checkpoint references is then older than what is read after it.
var resources = []struct {
	kind, path, resource string
}{
	{v1alpha1.KindCfg, "/apis/haproxy-haptic.org/v1alpha1", "haproxycfgs"},
	{v1alpha1.KindTemplateConfig, "/apis/haproxy-haptic.org/v1alpha1", "haproxytemplateconfigs"},
	{v1alpha1.KindMapFile, "/apis/haproxy-haptic.org/v1alpha1", "haproxymapfiles"},
	{v1alpha1.KindGeneralFile, "/apis/haproxy-haptic.org/v1alpha1", "haproxygeneralfiles"},
	{v1alpha1.KindCRTListFile, "/apis/haproxy-haptic.org/v1alpha1", "haproxycrtlistfiles"},
	{v1alpha1.KindSecret, "/api/v1", "secrets"},
	{KindLease, "/apis/coordination.k8s.io/v1", "leases"},
	{KindPod, "/api/v1", "pods"},
	{KindNode, "/api/v1", "nodes"},
	{KindEvent, "/api/v1", "events"},
}

func isFleet(kind string) bool { return kind == KindPod || kind == KindNode || kind == KindEvent }

// Cluster is a live cluster to read from.
type Cluster struct {
	client rest.Interface
	// namespace is empty for all namespaces.
	namespace string
}

// NewCluster prepares reading one namespace, or all if it is empty.
func NewCluster(config *rest.Config, namespace string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.QPS, config.Burst = readsPerSecond, readsAtOnce
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to read the cluster: %w", err)
	}
	return &Cluster{client: client, namespace: namespace}, nil
}

// Verify reads and judges. What looks damaged is read a second time, since a
// publication or collection may have gone on between two lists.
func (c *Cluster) Verify(ctx context.Context) (*Report, error) {
	report, err := c.verifyOnce(ctx)
	if err != nil || report.Outcome() != Damaged {
		return report, err
	}
	return c.verifyOnce(ctx)
}

func (c *Cluster) verifyOnce(ctx context.Context) (*Report, error) {
	inv, err := c.read(ctx, false)
	if err != nil {
		return nil, err
	}
	return Verify(inv)
}

// Drill reads and judges one template. A refusal is read a second time, since a
// publication may have gone on between two lists.
func (c *Cluster) Drill(ctx context.Context, settings DrillSettings) (*DrillReport, error) {
	report, err := c.drillOnce(ctx, settings)
	if err != nil || report.Answer == AnswerYes {
		return report, err
	}
	return c.drillOnce(ctx, settings)
}

// Inventory reads everything that verdicts on checkpoints depend on.
func (c *Cluster) Inventory(ctx context.Context) (*Inventory, error) { return c.read(ctx, false) }

// Export reads a checkpoint with its evidence. What looks damaged is read a second
// time, as Verify does.
func (c *Cluster) Export(ctx context.Context, settings ExportSettings) (*Export, error) {
	var export *Export
	for range 2 {
		inv := newInventory(true)
		inv.originals = map[identity]json.RawMessage{}
		if err := c.readInto(ctx, inv, false); err != nil {
			return nil, err
		}
		var err error
		if export, err = NewExport(inv, settings); err != nil || export.Outcome() != Damaged {
			return export, err
		}
	}
	return export, nil
}

// Status reads and judges all templates, a second time unless all is well.
func (c *Cluster) Status(ctx context.Context, now time.Time) (*Status, error) {
	var status *Status
	for range 2 {
		inv, err := c.read(ctx, true)
		if err != nil {
			return nil, err
		}
		if status, err = NewStatus(ctx, inv, now); err != nil || status.Answer() == AnswerYes {
			return status, err
		}
	}
	return status, nil
}

func (c *Cluster) drillOnce(ctx context.Context, settings DrillSettings) (*DrillReport, error) {
	inv, err := c.read(ctx, true)
	if err != nil {
		return nil, err
	}
	return Drill(ctx, inv, settings)
}

// read reads everything, pods and nodes only with fleet.
func (c *Cluster) read(ctx context.Context, fleet bool) (*Inventory, error) {
	inv := newInventory(true)
	return inv, c.readInto(ctx, inv, fleet)
}

func (c *Cluster) readInto(ctx context.Context, inv *Inventory, fleet bool) error {
	r := &objectReader{allowance: newAllowance(), inventory: inv, fleet: fleet}
	for i := range resources {
		kind := resources[i].kind
		if isFleet(kind) && !fleet {
			continue
		}
		err := c.list(ctx, r, i)
		switch {
		case err == nil, apierrors.IsNotFound(err):
			// A kind that is not installed has no objects.
		case apierrors.IsForbidden(err) && kind != v1alpha1.KindCfg:
			inv.unreadable[kind] = true
		default:
			return fmt.Errorf("listing %s: %w", resources[i].resource, err)
		}
	}
	return c.readReferenced(ctx, r)
}

// list reads all objects of one resource, page by page.
func (c *Cluster) list(ctx context.Context, r *objectReader, resource int) error {
	options := c.options(resources[resource].kind)
	namespace := c.namespace
	if resources[resource].kind == KindNode {
		namespace = ""
	}
	for {
		raw, err := c.get(ctx, resource, namespace, "", &options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			// The pages took too long; without pages the list is one answer.
			options.Continue, options.Limit = "", 0
			continue
		}
		if err != nil {
			return err
		}
		if err := r.allowance.spend(len(raw)); err != nil {
			return err
		}
		if err := r.readJSON(raw, "the cluster"); err != nil {
			return err
		}
		var list struct {
			Metadata metav1.ListMeta `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("reading a list of %s: %w", resources[resource].resource, decodeError(err))
		}
		if list.Metadata.Continue == "" {
			return nil
		}
		options.Continue = list.Metadata.Continue
	}
}

// options narrow a list to what can matter. All Secrets of a namespace are
// nobody's business, and nodes renew Leases all the time.
func (c *Cluster) options(kind string) metav1.ListOptions {
	options := metav1.ListOptions{Limit: pageSize}
	switch {
	case kind == KindEvent:
		options.FieldSelector = fields.OneTermEqualSelector("involvedObject.kind", v1alpha1.KindTemplateConfig).String()
	case kind == v1alpha1.KindSecret:
		options.LabelSelector = v1alpha1.LabelType
	case kind == KindLease && c.namespace == "":
		options.FieldSelector = fields.OneTermNotEqualSelector("metadata.namespace", corev1.NamespaceNodeLease).String()
	}
	return options
}

// readReferenced reads referenced children that no list had: Secrets without
// their label, or all where there is a right to get and none to list.
func (c *Cluster) readReferenced(ctx context.Context, r *objectReader) error {
	for _, namespace := range slices.Sorted(maps.Keys(r.inventory.spaces)) {
		sp := r.inventory.spaces[namespace]
		for _, name := range slices.Sorted(maps.Keys(sp.retained)) {
			references := sp.retained[name].stored.References
			if references == nil {
				continue
			}
			for _, ref := range references.Lists {
				if err := c.readChild(ctx, r, sp, childKey{ref.Kind, ref.Name}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *Cluster) readChild(ctx context.Context, r *objectReader, sp *space, key childKey) error {
	resource := slices.IndexFunc(resources, func(candidate struct{ kind, path, resource string }) bool { return candidate.kind == key.kind })
	switch {
	case sp.children[key] != nil, sp.denied[key], resource < 0, !isName(key.name):
		return nil
	case key.kind == v1alpha1.KindCfg, key.kind == v1alpha1.KindTemplateConfig, key.kind == KindLease, isFleet(key.kind):
		// No child is of these kinds; the verdict will say so.
		return nil
	}
	raw, err := c.get(ctx, resource, sp.namespace, key.name, nil)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		sp.denied[key] = true
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", resources[resource].resource, key.name, err)
	}
	if err := r.allowance.spend(len(raw)); err != nil {
		return err
	}
	return r.readJSON(raw, "the cluster")
}

func (c *Cluster) get(ctx context.Context, resource int, namespace, name string, options *metav1.ListOptions) ([]byte, error) {
	request := c.client.Get().AbsPath(resources[resource].path)
	request = request.NamespaceIfScoped(namespace, namespace != "").Resource(resources[resource].resource)
	if name != "" {
		request = request.Name(name)
	}
	if options != nil {
		request = request.SpecificallyVersionedParams(options, scheme.ParameterCodec, corev1.SchemeGroupVersion)
	}
	result := request.SetHeader("Accept", "application/json").Do(ctx)
	// Raw would say only that something failed, Error says what the server said.
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
