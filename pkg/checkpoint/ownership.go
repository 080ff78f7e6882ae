package checkpoint

import (
	"fmt"
	"strings"
)

// expectedOwner is the controller owner an object must have, and where it lives.
type expectedOwner struct {
	kind, namespace, name, uid string
}

func templateOwner(t Template) expectedOwner {
	return expectedOwner{kind: KindTemplate, namespace: t.Namespace, name: t.Name, uid: t.UID}
}

func checkpointOwner(f *CheckpointFacts) expectedOwner {
	return expectedOwner{kind: KindCfg, namespace: f.Namespace, name: f.Name, uid: f.UID}
}

// controller is the controller owner, or nil without one.
func (m Meta) controller() *Owner {
	for i := range m.Owners {
		if m.Owners[i].Controller {
			return &m.Owners[i]
		}
	}
	return nil
}

// OwnerProblem says how an object in namespace with this controller owner, zero
// without one, is not the template's, or nothing.
func (t Template) OwnerProblem(controller Owner, namespace string) string {
	return controllerProblem(&controller, namespace, templateOwner(t))
}

func ownerProblem(m Meta, want expectedOwner) string {
	return controllerProblem(m.controller(), m.Namespace, want)
}

// controllerProblem says how the controller owner differs from the expected one,
// or nothing. Group, kind, name, namespace and UID must all agree: a UID alone
// could be copied, and a name alone belongs to whoever takes it next.
func controllerProblem(owner *Owner, namespace string, want expectedOwner) string {
	if owner == nil || !owner.Controller {
		return fmt.Sprintf("metadata.ownerReferences: no controller; expected %s %s", want.kind, shown(want.name))
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	wantGroup, _, _ := strings.Cut(GroupVersion, "/")
	for _, field := range [...]struct{ name, want, found string }{
		{"metadata.ownerReferences: uid", want.uid, owner.UID},
		{"metadata.ownerReferences: name", want.name, owner.Name},
		{"metadata.ownerReferences: kind", want.kind, owner.Kind},
		{"metadata.ownerReferences: group", wantGroup, group},
		{"metadata.namespace", want.namespace, namespace},
	} {
		if field.found != field.want || field.found == "" {
			return fmt.Sprintf("%s: expected %s, found %s", field.name, shown(field.want), shown(field.found))
		}
	}
	return ""
}
