package viewfeed

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// seen is what remains of a stored object: its name and one of the facts below.
type seen struct {
	namespace, name string
	fact            any
}

type templateFact struct {
	view.Template
	// electionName is the leader-election Lease it names, or empty.
	electionName string
}

type outputFact struct {
	view.Output
	owner checkpoint.Owner
}

type retainedFact struct {
	*checkpoint.CheckpointFacts
	labels map[string]string
	// templateName and templateUID are what it says of its template.
	templateName, templateUID string
	references                []childKey
	modified                  time.Time
}

type childFact struct {
	*checkpoint.ChildFacts
	modified time.Time
}

// leaseFact holds both readings of a Lease, because which one it is depends
// on templates. Resource versions are left out: a renewal changes nothing.
type leaseFact struct {
	election           fencing.ElectionLease
	retained           fencing.RetainedLease
	acquired, recorded time.Time
}

// ingest reads a stored object, verifies it as far as it alone allows, and
// drops its bytes. What was ingested already passes through.
func ingest(obj any) (*seen, error) {
	switch o := obj.(type) {
	case *seen:
		return o, nil
	case *unstructured.Unstructured:
		return &seen{o.GetNamespace(), o.GetName(), ingestTemplate(o)}, nil
	case *v1alpha1.HAProxyCfg:
		return &seen{o.Namespace, o.Name, ingestCfg(o)}, nil
	case *v1alpha1.HAProxyMapFile:
		return ingestChild(&o.ObjectMeta, record.MapFile(o)), nil
	case *v1alpha1.HAProxyGeneralFile:
		return ingestChild(&o.ObjectMeta, record.GeneralFile(o)), nil
	case *v1alpha1.HAProxyCRTListFile:
		return ingestChild(&o.ObjectMeta, record.CRTListFile(o)), nil
	case *corev1.Secret:
		return ingestChild(&o.ObjectMeta, record.Secret(o)), nil
	case *coordinationv1.Lease:
		return &seen{o.Namespace, o.Name, ingestLease(o)}, nil
	}
	return nil, fmt.Errorf("a %T is no input of a view", obj)
}

// ingestTemplate takes the little that views need. A field of an unexpected
// type counts as absent, as it does for its own controller.
func ingestTemplate(o *unstructured.Unstructured) *templateFact {
	election := []string{"spec", "controller", "leaderElection"}
	enabled, stated, err := unstructured.NestedBool(o.Object, append(election, "enabled")...)
	leaseName, _, _ := unstructured.NestedString(o.Object, append(election, "leaseName")...)
	return &templateFact{
		Template: view.Template{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
			Created: o.GetCreationTimestamp().Time, Labels: o.GetLabels(),
			Standalone: err == nil && stated && !enabled,
		},
		electionName: leaseName,
	}
}

// checkpointNamePart is in the name of every checkpoint, so that one whose
// payload and labels were removed is still shown, as damaged.
const checkpointNamePart = "-haproxycfg-retained-"

func isCheckpoint(o *v1alpha1.HAProxyCfg) bool {
	return record.IsCheckpoint(o) || strings.Contains(o.Name, checkpointNamePart)
}

func ingestCfg(o *v1alpha1.HAProxyCfg) any {
	if !isCheckpoint(o) {
		pointers, pods := record.Ordinary(o)
		return &outputFact{Output: view.Output{Pointers: pointers, Pods: pods}, owner: controllerOf(&o.ObjectMeta)}
	}
	stored := record.Checkpoint(o)
	fact := &retainedFact{
		CheckpointFacts: checkpoint.IngestCheckpoint(stored),
		labels:          o.Labels,
		templateName:    o.Labels[v1alpha1.LabelTemplateConfig],
		templateUID:     o.Labels[v1alpha1.LabelRetainedFor],
		modified:        modifiedAt(&o.ObjectMeta, true),
	}
	if owner := controllerOf(&o.ObjectMeta); owner.Kind == v1alpha1.KindTemplateConfig {
		fact.templateName, fact.templateUID = owner.Name, owner.UID
	}
	if stored.References != nil {
		for _, reference := range stored.References.Lists {
			fact.references = append(fact.references, childKey{reference.Kind, reference.Name})
		}
	}
	return fact
}

func ingestChild(meta *metav1.ObjectMeta, stored *checkpoint.StoredChild) *seen {
	return &seen{meta.Namespace, meta.Name, &childFact{checkpoint.IngestChild(stored), modifiedAt(meta, false)}}
}

func ingestLease(o *coordinationv1.Lease) *leaseFact {
	fact := &leaseFact{election: record.ElectionLease(o), retained: record.RetainedLease(o)}
	fact.election.ResourceVersion, fact.retained.ResourceVersion = "", ""
	if o.Spec.AcquireTime != nil {
		fact.acquired = o.Spec.AcquireTime.Time
	}
	// Only a template's own Lease: the time of a leader-election Lease is that
	// of its last renewal.
	if fact.retained.Owner.UID != "" {
		fact.recorded = modifiedAt(&o.ObjectMeta, true)
	}
	return fact
}

func controllerOf(meta *metav1.ObjectMeta) checkpoint.Owner {
	ref := metav1.GetControllerOf(meta)
	if ref == nil {
		return checkpoint.Owner{}
	}
	return checkpoint.Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: string(ref.UID), Controller: true}
}

// modifiedAt is when an object was last written, as far as it says so itself.
// Status writes count only where status is an input of views: pods report on
// files all the time.
func modifiedAt(meta *metav1.ObjectMeta, withStatus bool) time.Time {
	newest := meta.CreationTimestamp.Time
	for i := range meta.ManagedFields {
		entry := &meta.ManagedFields[i]
		if entry.Time != nil && entry.Time.After(newest) && (withStatus || entry.Subresource == "") {
			newest = entry.Time.Time
		}
	}
	return newest
}
