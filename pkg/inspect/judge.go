package inspect

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// judgement is the verdict on one checkpoint in the making.
type judgement struct {
	inv  *Inventory
	sp   *space
	root *root
	in   view.CheckpointInput
	// stored is the checkpoint, completed where an export was stripped.
	stored *checkpoint.StoredCheckpoint
	// found are the children that were looked up, by what they store.
	found map[fileKey]*checkpoint.StoredChild
	// lacks are what the input does not tell, per object.
	lacks []lack
	err   error
}

// fileKey is what a child and its descriptor have in common. Both families of
// general files share one list.
type fileKey struct {
	family checkpoint.Family
	path   string
}

// lack is something that only the input's incompleteness keeps from being judged.
type lack struct{ object, message string }

// judge verifies one checkpoint and computes its view, as the API server does.
func (v *verifier) judge(sp *space, r *retained) (*Checkpoint, error) {
	j := &judgement{
		inv: v.inv, sp: sp, root: v.inv.rootOf(sp, r.templateName, r.templateUID),
		found: map[fileKey]*checkpoint.StoredChild{},
		in: view.CheckpointInput{
			Labels: r.labels, TemplateName: r.templateName, TemplateUID: r.templateUID, Modified: r.modified,
			Leases: view.Leases{Readable: v.inv.leasesReadable(sp)}, Output: nil,
		},
	}
	j.in.Output = v.inv.outputOf(sp, j.root)
	if t := j.root.fact; t != nil {
		j.in.Template = &t.Template
		leases, err := v.inv.leasesOf(sp, t, j.root.UID)
		if err != nil {
			return nil, err
		}
		j.in.Leases = leases
		j.in.Intent = fencing.Effective(leases.Election, leases.Retained, j.root.UID)
	}
	pointer := j.in.Output.PointerTo(r.stored.Name)
	j.complete(r, pointer)
	facts := checkpoint.IngestCheckpoint(j.stored)
	j.in.Verdict = checkpoint.Judge(checkpoint.Input{
		Template: j.root.Template, Checkpoint: facts, Child: j.lookUp, Pointer: pointer,
		ContentChecksum: func(string) (string, bool) { return j.contentChecksum(facts) },
	})
	if j.err != nil {
		return nil, j.err
	}
	j.explainLacks()
	j.in.Meta = facts.Meta
	c := &Checkpoint{
		View: view.Checkpoint(&j.in), Verdict: j.in.Verdict,
		Promoted: pointer != nil, Terminating: facts.Terminating,
	}
	if facts.UID == "" {
		c.View.UID = ""
	}
	v.inv.adjustConditions(c.View.Status.Conditions)
	return c, nil
}

// lookUp finds a referenced child. What is not there does not exist in a
// cluster; in files only if others of its sort are there.
func (j *judgement) lookUp(kind, name string) (*checkpoint.ChildFacts, checkpoint.Presence) {
	key := childKey{kind, name}
	c := j.sp.children[key]
	switch {
	case c != nil && (j.inv.live || !c.bare):
		if err := j.inv.sole(kind, j.sp.namespace, name); err != nil {
			j.err = err
		}
		if c.modified.After(j.in.Modified) {
			j.in.Modified = c.modified
		}
		stored := j.completeChild(c.stored)
		facts := checkpoint.IngestChild(stored)
		j.found[fileKey{listed(facts.Family), facts.Path}] = stored
		return facts, checkpoint.Present
	case j.inv.live && !j.sp.denied[key]:
		return nil, checkpoint.Missing
	case j.inv.live:
		return nil, checkpoint.Unreadable
	case c != nil:
		j.lack(objectName(kind, name), "its data is not in the input")
		return nil, checkpoint.Unreadable
	case kind == v1alpha1.KindSecret && !j.sp.secrets:
		j.lack(objectName(kind, name), "it is not in the input, and neither is any other Secret with data of the namespace")
		return nil, checkpoint.Unreadable
	case kind != v1alpha1.KindSecret && !j.sp.files:
		j.lack(objectName(kind, name), "it is not in the input, and neither is any other file of the namespace")
		return nil, checkpoint.Unreadable
	}
	return nil, checkpoint.Missing
}

func listed(family checkpoint.Family) checkpoint.Family {
	if family == checkpoint.GeneralCA {
		return checkpoint.General
	}
	return family
}

// contentChecksum streams the bytes that the facts were made from. It is asked
// only when all of them are there.
func (j *judgement) contentChecksum(facts *checkpoint.CheckpointFacts) (string, bool) {
	budget := checkpoint.NewBudget()
	configuration, err := checkpoint.Load(j.stored.Content, j.stored.Compressed, budget)
	if err != nil {
		return "", false
	}
	checksum, err := checkpoint.StreamContentChecksum(facts, configuration, func(d checkpoint.Descriptor) ([]byte, error) {
		c := j.found[fileKey{listed(d.Family), d.Path}]
		if c == nil {
			return nil, fmt.Errorf("no object stores %s %s", d.Family, d.Path)
		}
		return checkpoint.Load(c.Text, c.Compressed, budget)
	})
	return checksum, err == nil
}

// lack notes what the input does not tell about an object.
func (j *judgement) lack(object, message string) {
	j.lacks = append(j.lacks, lack{object, message})
}

// explainLacks brings into the verdict what could not be judged. For children
// that are not there it replaces the finding that there is no right to read
// them, which is how they were looked up.
func (j *judgement) explainLacks() {
	verdict := &j.in.Verdict
	for _, l := range j.lacks {
		finding := checkpoint.Finding{
			State: checkpoint.Unknown, Reason: ReasonNotGiven, Message: l.object + ": " + l.message,
		}
		replaced := false
		for i := range verdict.Findings {
			f := &verdict.Findings[i]
			if f.Reason == checkpoint.ReasonNotPermitted && strings.HasPrefix(f.Message, l.object+": ") {
				*f, replaced = finding, true
			}
		}
		if !replaced {
			verdict.Findings = append(verdict.Findings, finding)
		}
		for i := range verdict.Artifacts {
			a := &verdict.Artifacts[i]
			if objectName(a.Kind, a.Object) == l.object && a.State != checkpoint.Damaged {
				a.State, a.Reason, a.Message = finding.State, finding.Reason, finding.Message
			}
		}
	}
	if len(j.lacks) > 0 && verdict.State != checkpoint.Damaged {
		sumUp(verdict)
	}
}

// sumUp makes the first finding that is Unknown the verdict.
func sumUp(verdict *checkpoint.Verdict) {
	for _, f := range verdict.Findings {
		if f.State == checkpoint.Unknown {
			verdict.State, verdict.Reason, verdict.Message = f.State, f.Reason, f.Message
			return
		}
	}
}

// adjustConditions says of files what is true of files: nobody refused to show
// a Lease, it is just not there.
func (inv *Inventory) adjustConditions(conditions []metav1.Condition) {
	if inv.live {
		return
	}
	for i := range conditions {
		c := &conditions[i]
		if c.Reason == view.ReasonNotPermitted {
			c.Reason = string(ReasonNotGiven)
			c.Message = strings.Replace(c.Message, "there is no right to read Leases", "no Lease of the namespace is in the input", 1)
		}
	}
}

func objectName(kind, name string) string { return kind + "/" + name }
