package inspect

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// Inventory is everything that was read, by namespace.
type Inventory struct {
	// live: it was read from a cluster, so that what is not in it does not exist.
	live   bool
	spaces map[string]*space
	// unreadable are kinds that a cluster gives no right to list.
	unreadable map[string]bool
	// ignored counts objects of kinds that no verdict depends on, and foreign
	// those among them that are of our group, by apiVersion and kind.
	ignored int
	foreign map[string]int
	seen    map[identity]*origin
	// nodes tell by name whether a node is ready; nil if none was read.
	nodes map[string]bool
	// originals are the objects as they were given, for exports; nil unless asked for.
	originals map[identity]json.RawMessage
	// exported are checkpoints that came alone, and altered what is wrong with the
	// folders they came in.
	exported []identity
	altered  []Notice
}

type identity struct{ kind, namespace, name string }

// origin is where an object came from, to find out whether it came twice.
type origin struct {
	where  string
	digest [sha256.Size]byte
	// conflict is where another version of it came from.
	conflict string
}

type childKey struct{ kind, name string }

// space is what is known of one namespace. Nothing refers to another one.
type space struct {
	namespace string
	templates map[string]*templateFact
	outputs   map[string]*outputFact
	retained  map[string]*retained
	leases    map[string]*leaseFact
	children  map[childKey]*child
	// denied are children that a cluster gives no right to read.
	denied map[childKey]bool
	// pods are those of the namespace; nil if none was read.
	pods []*corev1.Pod
	// told are the newest events of a recovery, by the template's UID.
	told map[string]*corev1.Event
	// files and secrets tell that the namespace's children are in the input.
	files, secrets bool
}

type templateFact struct {
	view.Template
	// selects are the labels of its proxy pods.
	selects map[string]string
}

type outputFact struct {
	view.Output
	owner checkpoint.Owner
	// bare: it has no status at all, and stripped: no UID and no owners.
	bare, stripped bool
	cfg            *v1alpha1.HAProxyCfg
}

type retained struct {
	stored *checkpoint.StoredCheckpoint
	cfg    *v1alpha1.HAProxyCfg
	labels map[string]string
	// templateName and templateUID are what it says of its template.
	templateName, templateUID string
	modified                  time.Time
}

type child struct {
	stored   *checkpoint.StoredChild
	modified time.Time
	// bare: it is a Secret without any data, or a bundle of authorities without
	// content, which no cluster stores.
	bare bool
}

type leaseFact struct {
	view.Lease
	// stripped: it has no UID and no owners.
	stripped bool
	// expires is when it ends unless it is renewed, zero for never.
	expires time.Time
}

func newInventory(live bool) *Inventory {
	return &Inventory{
		live: live, spaces: map[string]*space{}, unreadable: map[string]bool{},
		foreign: map[string]int{}, seen: map[identity]*origin{},
	}
}

// keep keeps an object as it was given.
func (inv *Inventory) keep(id identity, raw json.RawMessage) {
	if inv.originals != nil {
		inv.originals[id] = raw
	}
}

// Ignored is how many objects were of kinds that no verdict depends on.
func (inv *Inventory) Ignored() int { return inv.ignored }

func (inv *Inventory) skip(gv schema.GroupVersion, kind string) {
	inv.ignored++
	if gv.Group == v1alpha1.GroupName {
		inv.foreign[gv.String()+" "+kind]++
	}
}

func (inv *Inventory) space(namespace string) *space {
	sp := inv.spaces[namespace]
	if sp == nil {
		sp = &space{
			namespace: namespace, templates: map[string]*templateFact{}, outputs: map[string]*outputFact{},
			retained: map[string]*retained{}, leases: map[string]*leaseFact{},
			children: map[childKey]*child{}, denied: map[childKey]bool{},
		}
		inv.spaces[namespace] = sp
	}
	return sp
}

// add takes an object in. One that came before must be equal: two versions of
// one object cannot both be judged. For Secrets and Leases that matters only if
// they are used, since most are nobody's business here.
func (inv *Inventory) add(object metav1.Object, kind, where string) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s: comparing %s/%s: %w", where, kind, object.GetName(), err)
	}
	id := identity{kind, object.GetNamespace(), object.GetName()}
	digest := sha256.Sum256(raw)
	before := inv.seen[id]
	switch {
	case before == nil || inv.live:
		inv.seen[id] = &origin{where: where, digest: digest}
	case before.digest == digest:
		return nil
	case kind == v1alpha1.KindSecret || kind == KindLease:
		before.conflict = where
		return nil
	default:
		return before.conflictError(id, where)
	}
	inv.space(id.namespace).put(object)
	return nil
}

func (o *origin) conflictError(id identity, where string) error {
	return fmt.Errorf("%s/%s in namespace %s is given twice with different content: in %s and in %s",
		id.kind, id.name, id.namespace, o.where, where)
}

// sole reports a used object that was given in two versions.
func (inv *Inventory) sole(kind, namespace, name string) error {
	id := identity{kind, namespace, name}
	if o := inv.seen[id]; o != nil && o.conflict != "" {
		return o.conflictError(id, o.conflict)
	}
	return nil
}

func (sp *space) put(object metav1.Object) {
	switch o := object.(type) {
	case *template:
		sp.templates[o.Name] = newTemplateFact(o)
	case *v1alpha1.HAProxyCfg:
		sp.putCfg(o)
	case *v1alpha1.HAProxyMapFile:
		sp.putChild(&o.ObjectMeta, record.MapFile(o))
	case *v1alpha1.HAProxyGeneralFile:
		sp.putChild(&o.ObjectMeta, record.GeneralFile(o)).bare = o.Spec.CAFile && o.Spec.Content == "" && !o.Spec.Empty
	case *v1alpha1.HAProxyCRTListFile:
		sp.putChild(&o.ObjectMeta, record.CRTListFile(o))
	case *corev1.Secret:
		sp.putChild(&o.ObjectMeta, record.Secret(o)).bare = len(o.Data) == 0
		sp.secrets = sp.secrets || len(o.Data) > 0
	case *coordinationv1.Lease:
		sp.leases[o.Name] = newLeaseFact(o)
	case *corev1.Pod:
		sp.pods = append(sp.pods, o)
	case *corev1.Event:
		sp.putEvent(o)
	}
}

func newTemplateFact(o *template) *templateFact {
	election := &o.Spec.Controller.LeaderElection
	return &templateFact{
		Template: view.Template{
			Namespace: o.Namespace, Name: o.Name, UID: string(o.UID),
			Created: o.CreationTimestamp.Time, Labels: o.Labels,
			Standalone: election.Enabled != nil && !*election.Enabled, ElectionName: election.LeaseName,
		},
		selects: o.Spec.PodSelector.MatchLabels,
	}
}

func (sp *space) putCfg(o *v1alpha1.HAProxyCfg) {
	if !record.IsCheckpoint(o) {
		pointers, pods := record.Ordinary(o)
		bare := len(pointers) == 0 && len(pods) == 0 && o.Status.AuxiliaryFiles == nil &&
			o.Status.ObservedGeneration == 0 && len(o.Status.Conditions) == 0 && o.Status.ValidationError == ""
		sp.outputs[o.Name] = &outputFact{
			Output: view.Output{Pointers: pointers, Pods: pods}, owner: record.Controller(&o.ObjectMeta),
			bare: bare, stripped: o.UID == "" && len(o.OwnerReferences) == 0, cfg: o,
		}
		return
	}
	r := &retained{
		stored:   record.Checkpoint(o),
		cfg:      o,
		labels:   o.Labels,
		modified: record.ModifiedAt(&o.ObjectMeta, true),
	}
	r.templateName, r.templateUID = record.TemplateOf(o)
	if r.templateName == "" && o.UID == "" {
		// Labels and owners were stripped like the UID; the name remains.
		r.templateName = record.TemplateIn(o.Name)
	}
	sp.retained[o.Name] = r
}

func (sp *space) putChild(meta *metav1.ObjectMeta, stored *checkpoint.StoredChild) *child {
	c := &child{stored: stored, modified: record.ModifiedAt(meta, false)}
	sp.children[childKey{stored.Kind, stored.Name}] = c
	sp.files = sp.files || stored.Kind != v1alpha1.KindSecret
	return c
}

func newLeaseFact(o *coordinationv1.Lease) *leaseFact {
	fact := &leaseFact{
		Lease:    view.Lease{Election: record.ElectionLease(o), Retained: record.RetainedLease(o)},
		stripped: o.UID == "" && len(o.OwnerReferences) == 0,
	}
	fact.Acquired, fact.Recorded = record.LeaseTimes(o)
	if s := o.Spec; s.RenewTime != nil && s.LeaseDurationSeconds != nil {
		fact.expires = s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)
	}
	return fact
}
