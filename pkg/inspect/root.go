package inspect

import (
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// unknownUID stands for the template's UID where the input holds it nowhere. No
// real UID equals it.
const unknownUID = "(not in the input)"

// root is the template that a checkpoint is judged against.
type root struct {
	checkpoint.Template
	// fact is nil if the template is not there, so that its UID is what the
	// checkpoint says of it.
	fact *templateFact
	// assumed: the template is there without a UID.
	assumed bool
}

// rootOf is the template of that name; carried is the UID that what is judged
// carries itself.
func (inv *Inventory) rootOf(sp *space, name, carried string) *root {
	r := &root{
		Template: checkpoint.Template{Namespace: sp.namespace, Name: name, UID: carried},
		fact:     sp.templates[name],
	}
	switch {
	case r.fact != nil && r.fact.UID != "":
		r.UID = r.fact.UID
	case r.fact != nil:
		r.assumed = true
	}
	if r.UID == "" && !inv.live {
		r.UID, r.assumed = unknownUID, true
	}
	return r
}

// templatesKnown tells that a template which is not there does not exist.
func (inv *Inventory) templatesKnown() bool {
	return inv.live && !inv.unreadable[v1alpha1.KindTemplateConfig]
}

// ownUID is what the first checkpoint of a template says of the template's UID.
func ownUID(sp *space, name string) string {
	first := ""
	for key, r := range sp.retained {
		if r.templateName == name && r.templateUID != "" && (first == "" || key < first) {
			first = key
		}
	}
	if first == "" {
		if output := sp.outputs[checkpoint.OrdinaryName(name)]; output != nil && output.owner.Name == name {
			return output.owner.UID
		}
		return ""
	}
	return sp.retained[first].templateUID
}

// uidOf is the template's UID, or what others say of it where it was stripped.
func (inv *Inventory) uidOf(sp *space, t *templateFact) string {
	return inv.rootOf(sp, t.Name, ownUID(sp, t.Name)).UID
}

// outputOf returns a template's ordinary output: by its name, and only if the
// template owns it. In half an export the template itself may be missing.
func (inv *Inventory) outputOf(sp *space, r *root) *view.Output {
	output := sp.outputs[checkpoint.OrdinaryName(r.Name)]
	switch {
	case output == nil, r.fact == nil && inv.templatesKnown():
		return nil
	case output.stripped && !inv.live:
		return &output.Output
	case r.OwnerProblem(output.owner, sp.namespace) != "":
		return nil
	}
	return &output.Output
}
