package sim

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// Resources of what is published.
const (
	resourceOutputs = "haproxycfgs"
	resourceSecrets = "secrets"
)

var childResources = map[string]string{
	"haproxymapfiles": v1alpha1.KindMapFile, "haproxygeneralfiles": v1alpha1.KindGeneralFile,
	"haproxycrtlistfiles": v1alpha1.KindCRTListFile, resourceSecrets: v1alpha1.KindSecret,
}

// isPublication reports a request that changes what is published, per-pod
// entries and files' statuses apart: those go out many at a time.
func isPublication(target string) bool {
	verb, rest, _ := strings.Cut(target, " ")
	resource, _, _ := strings.Cut(rest, " ")
	resource, _, _ = strings.Cut(resource, "/")
	_, child := childResources[resource]
	return (child || resource == resourceOutputs) && (verb == "create" || verb == "update" || verb == "delete")
}

const promotionBy = "promotion by "

type childKey struct{ kind, name string }

// pointerChecker judges that promoted checkpoints are complete for as long as
// they are promoted, and that no deletion takes what a checkpoint references:
// invariants 3 and 4. It keeps its own copy of the store, in commit order.
type pointerChecker struct {
	sees
	w        *world
	template checkpoint.Template
	outputs  map[string]*v1alpha1.HAProxyCfg
	children map[childKey]*checkpoint.StoredChild
	pointers []checkpoint.Pointer
	// lost are the files that a foreign hand deleted, with the step, and listed
	// the steps in which processes last listed a resource.
	lost   map[childKey]int
	listed map[string]int
}

func newPointerChecker(w *world) *pointerChecker {
	p := &pointerChecker{
		w: w, outputs: map[string]*v1alpha1.HAProxyCfg{}, children: map[childKey]*checkpoint.StoredChild{},
		lost: map[childKey]int{}, listed: map[string]int{},
	}
	w.pointers = p
	return p
}

func (p *pointerChecker) changed(c fakeapi.Change) {
	switch kind, child := childResources[c.GVR.Resource]; {
	case c.GVR.Resource == "haproxytemplateconfigs":
		uid, _ := c.New["metadata"].(map[string]any)["uid"].(string)
		p.template = checkpoint.Template{Namespace: namespace, Name: templateName, UID: uid}
	case c.GVR.Resource == resourceOutputs:
		p.changedOutput(c)
	case child:
		p.changedChild(c, childKey{kind, c.Name})
	}
}

func (p *pointerChecker) changedOutput(c fakeapi.Change) {
	cfg := decode[v1alpha1.HAProxyCfg](c.New)
	if c.Type == "DELETED" {
		delete(p.outputs, c.Name)
	} else {
		p.outputs[c.Name] = cfg
	}
	if c.Name != checkpoint.OrdinaryName(templateName) {
		for _, pointer := range p.pointers {
			if pointer.Name == c.Name {
				p.judge(pointer, c.Type+" "+c.Name+" by "+c.Client)
			}
		}
		return
	}
	before := p.pointers
	p.pointers = nil
	if c.Type != "DELETED" {
		p.pointers, _ = record.Ordinary(cfg)
	}
	for _, pointer := range p.pointers {
		if !slices.Contains(before, pointer) {
			p.judge(pointer, promotionBy+c.Client)
		}
	}
}

func (p *pointerChecker) changedChild(c fakeapi.Change, key childKey) {
	before := p.children[key]
	if c.Type == "DELETED" {
		delete(p.children, key)
		if c.Client == fakeapi.Admin {
			p.lost[key] = p.w.step
		}
	} else {
		p.children[key] = storedChild(key.kind, c.New)
	}
	for _, cfg := range p.outputs {
		if !references(cfg, key) {
			continue
		}
		if c.Type == "DELETED" && before != nil && cfg.DeletionTimestamp == nil && c.Client != fakeapi.Admin {
			p.w.violate(invariantCollection, "%s deletes %s %s, which %s references", c.Client, key.kind, key.name, cfg.Name)
		}
		for _, pointer := range p.pointers {
			if pointer.Name == cfg.Name {
				p.judge(pointer, c.Type+" "+key.name+" by "+c.Client)
			}
		}
	}
}

// judge requires a promoted checkpoint to be complete, sound and acknowledged.
func (p *pointerChecker) judge(pointer checkpoint.Pointer, cause string) {
	cfg := p.outputs[pointer.Name]
	if cfg == nil || string(cfg.UID) != pointer.UID {
		p.w.violate(invariantPointers, "pointer %s names nothing after %s", pointer.Name, cause)
		return
	}
	if p.couldNotKnow(cfg, cause) {
		return
	}
	verdict := p.verify(cfg, pointer)
	if verdict.State != checkpoint.Verified || !verdict.Acknowledged {
		p.w.violate(invariantPointers, "pointer %s is %s %s (acknowledged %v) after %s: %s",
			pointer.Name, verdict.State, verdict.Reason, verdict.Acknowledged, cause, verdict.Message)
	}
}

func (p *pointerChecker) verify(cfg *v1alpha1.HAProxyCfg, pointer checkpoint.Pointer) checkpoint.Verdict {
	children := make([]*checkpoint.StoredChild, 0, len(p.children))
	for _, child := range p.children {
		children = append(children, child)
	}
	verdict, _ := checkpoint.Verify(p.template, record.Checkpoint(cfg), children, &pointer)
	return verdict
}

// isSound reports that the newest checkpoint is whole. A foreign hand can have
// outrun its promotion, and it takes a leader to repair that.
func (p *pointerChecker) isSound() bool {
	newest := p.newest()
	cfg := p.outputs[newest.Name]
	return cfg != nil && p.verify(cfg, newest).State == checkpoint.Verified
}

func (p *pointerChecker) sent(i *item) {
	if strings.HasPrefix(i.target, "list ") {
		p.listed[i.process+" "+i.target] = p.w.step
	}
}

// couldNotKnow reports a promotion that a foreign hand outran: it deleted a file
// after the promoting process had asked for the list by which it verified.
func (p *pointerChecker) couldNotKnow(cfg *v1alpha1.HAProxyCfg, cause string) bool {
	process, promoted := strings.CutPrefix(cause, promotionBy)
	if !promoted {
		return false
	}
	for resource, kind := range childResources {
		for key, step := range p.lost {
			if key.kind == kind && p.children[key] == nil && references(cfg, key) && step >= p.listed[process+" list "+resource+" "] {
				return true
			}
		}
	}
	return false
}

// newest is the newest pointer, or none.
func (p *pointerChecker) newest() checkpoint.Pointer {
	if len(p.pointers) == 0 {
		return checkpoint.Pointer{}
	}
	return p.pointers[0]
}

// unpromotedFiles are the shared files that no promoted checkpoint references,
// in order of their names.
func (p *pointerChecker) unpromotedFiles() []string {
	var names []string
	for key, child := range p.children {
		promoted := false
		for _, pointer := range p.pointers {
			if cfg := p.outputs[pointer.Name]; cfg != nil && references(cfg, key) {
				promoted = true
			}
		}
		if !promoted && len(child.Owners) == 1 && child.Owners[0].Kind == v1alpha1.KindTemplateConfig {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	return names
}

func references(cfg *v1alpha1.HAProxyCfg, key childKey) bool {
	refs := cfg.Status.AuxiliaryFiles
	if refs == nil || cfg.Name == checkpoint.OrdinaryName(templateName) {
		return false
	}
	for _, list := range [][]v1alpha1.FileReference{
		refs.MapFiles, refs.SSLCertificates, refs.SSLCaFiles, refs.GeneralFiles, refs.CRTListFiles,
	} {
		for _, ref := range list {
			if ref.Kind == key.kind && ref.Name == key.name {
				return true
			}
		}
	}
	return false
}

func storedChild(kind string, tree map[string]any) *checkpoint.StoredChild {
	switch kind {
	case v1alpha1.KindMapFile:
		return record.MapFile(decode[v1alpha1.HAProxyMapFile](tree))
	case v1alpha1.KindGeneralFile:
		return record.GeneralFile(decode[v1alpha1.HAProxyGeneralFile](tree))
	case v1alpha1.KindCRTListFile:
		return record.CRTListFile(decode[v1alpha1.HAProxyCRTListFile](tree))
	}
	return record.Secret(decode[corev1.Secret](tree))
}
