package viewfeed

import (
	"fmt"
	"time"
	"unique"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
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

// leaseFact leaves resource versions out: a renewal changes nothing.
type leaseFact struct {
	view.Lease
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
			Standalone: err == nil && stated && !enabled, ElectionName: leaseName,
		},
	}
}

func ingestCfg(o *v1alpha1.HAProxyCfg) any {
	if !record.IsCheckpoint(o) {
		pointers, pods := record.Ordinary(o)
		return &outputFact{Output: view.Output{Pointers: pointers, Pods: pods}, owner: record.Controller(&o.ObjectMeta)}
	}
	stored := record.Checkpoint(o)
	fact := &retainedFact{
		CheckpointFacts: checkpoint.IngestCheckpoint(stored),
		labels:          o.Labels,
		modified:        record.ModifiedAt(&o.ObjectMeta, true),
	}
	name, uid := record.TemplateOf(o)
	fact.templateName, fact.templateUID = unique.Make(name).Value(), unique.Make(uid).Value()
	// Those of the facts, which are copies that are kept anyway.
	if kept := fact.References; kept != nil {
		fact.references = make([]childKey, 0, len(kept.Lists))
		for i := range kept.Lists {
			fact.references = append(fact.references, childKey{kept.Lists[i].Kind, kept.Lists[i].Name})
		}
	}
	return fact
}

func ingestChild(meta *metav1.ObjectMeta, stored *checkpoint.StoredChild) *seen {
	return &seen{meta.Namespace, meta.Name, &childFact{checkpoint.IngestChild(stored), record.ModifiedAt(meta, false)}}
}

func ingestLease(o *coordinationv1.Lease) *leaseFact {
	fact := &leaseFact{view.Lease{Election: record.ElectionLease(o), Retained: record.RetainedLease(o)}}
	fact.Election.ResourceVersion, fact.Retained.ResourceVersion = "", ""
	fact.Acquired, fact.Recorded = record.LeaseTimes(o)
	return fact
}
