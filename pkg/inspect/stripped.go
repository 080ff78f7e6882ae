package inspect

import (
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

const noUID = "metadata.uid is not in the input, so that ownership cannot be compared"

// complete copies the checkpoint and fills in, where a file left out UIDs or
// owners, what others say of them: the rest can then be judged, and the verdict
// is Unknown at best. From a cluster nothing is left out.
func (j *judgement) complete(r *retained, pointer *checkpoint.Pointer) {
	stored := *r.stored
	j.stored = &stored
	if j.inv.live {
		return
	}
	if j.root.assumed {
		j.assumeRoot()
	}
	if stored.UID != "" {
		return
	}
	j.lack(objectName(v1alpha1.KindCfg, stored.Name), noUID)
	if len(stored.Owners) == 0 {
		stored.Owners = []checkpoint.Owner{j.owner()}
	}
	if pointer != nil {
		stored.UID = pointer.UID
		return
	}
	stored.UID = j.claimedUID(v1alpha1.KindCfg, stored.Name)
}

// assumeRoot reports a template without a UID, and looks for one in the owners
// of children where even the checkpoint carries none.
func (j *judgement) assumeRoot() {
	j.lack(objectName(v1alpha1.KindTemplateConfig, j.root.Name), noUID)
	if j.root.UID != unknownUID {
		return
	}
	if uid := j.claimedUID(v1alpha1.KindTemplateConfig, j.root.Name); uid != "" {
		j.root.UID = uid
	}
}

// claimedUID is what the checkpoint's children say of the UID of an owner.
func (j *judgement) claimedUID(kind, name string) string {
	if j.stored.References == nil {
		return ""
	}
	for _, ref := range j.stored.References.Lists {
		c := j.sp.children[childKey{ref.Kind, ref.Name}]
		if c == nil {
			continue
		}
		for _, o := range c.stored.Owners {
			if o.Controller && o.Kind == kind && o.Name == name {
				return o.UID
			}
		}
	}
	return ""
}

// completeChild gives a child without UID and owners the owner it must have.
func (j *judgement) completeChild(c *checkpoint.StoredChild) *checkpoint.StoredChild {
	if j.inv.live || c.UID != "" || len(c.Owners) > 0 {
		return c
	}
	completed := *c
	completed.Owners = []checkpoint.Owner{j.owner()}
	j.lack(objectName(c.Kind, c.Name), "metadata.uid and metadata.ownerReferences are not in the input, so that ownership cannot be compared")
	return &completed
}

// owner is the template as the owner of something.
func (j *judgement) owner() checkpoint.Owner {
	return checkpoint.Owner{
		APIVersion: checkpoint.GroupVersion, Kind: v1alpha1.KindTemplateConfig,
		Name: j.root.Name, UID: j.root.UID, Controller: true,
	}
}
