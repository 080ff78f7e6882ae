package sim

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// agreementChecker judges that recovery acts on a fleet of one mind: every
// configured pod runs the plan that recovery loads. Pods that a later term
// served meanwhile do not count: recovery could not have known.
type agreementChecker struct {
	sees
	w *world
}

func (c *agreementChecker) loaded(l load) {
	if l.token.RenderSeq != 0 {
		return
	}
	for _, a := range c.w.proxies() {
		state := &a.state
		if a.name != l.pod && state.Phase == api.PhaseConfigured && state.AppliedPlanID != l.plan && state.AppliedToken.LeaderEpoch <= l.token.LeaderEpoch {
			c.w.violate(invariantTerms, "recovery loads plan %s on pod %s while pod %s runs plan %s", l.plan, l.pod, a.name, state.AppliedPlanID)
		}
	}
}

// latchChecker judges that a process which found rendering blocked publishes
// nothing until the inputs have changed.
type latchChecker struct {
	sees
	w        *world
	pointers *pointerChecker
	// blocked are the processes that wrote so into the template's status, with
	// the step in which they did.
	blocked map[string]int
}

func (c *latchChecker) changed(change fakeapi.Change) {
	if change.GVR.Resource != "haproxytemplateconfigs" || change.New == nil {
		return
	}
	if change.Client == fakeapi.Admin {
		clear(c.blocked)
		return
	}
	template := decode[v1alpha1.HAProxyTemplateConfig](change.New)
	validated := meta.FindStatusCondition(template.Status.Conditions, v1alpha1.ConditionValidated)
	if validated != nil && validated.Status == "False" && validated.ObservedGeneration == template.Generation {
		c.blocked[change.Client] = c.w.step
	}
}

func (c *latchChecker) sent(i *item) {
	step, blocked := c.blocked[i.process]
	if blocked && step < c.w.step && i.class == classWrite && isPublication(i.target) && !c.onlyEntries(i) {
		c.w.violate(invariantLatch, "%s sends %q while rendering is blocked", i.process, i.target)
	}
}

// onlyEntries reports a write that takes entries of gone pods off the ordinary
// output or a file, which is no publication.
func (c *latchChecker) onlyEntries(i *item) bool {
	if strings.Contains(i.target, "/status ") && !strings.HasPrefix(i.target, "update "+resourceOutputs) {
		return true
	}
	var sent v1alpha1.HAProxyCfg
	stored := c.pointers.outputs[checkpoint.OrdinaryName(templateName)]
	return i.target == "update "+resourceOutputs+"/status "+checkpoint.OrdinaryName(templateName) &&
		stored != nil && json.Unmarshal(i.body, &sent) == nil &&
		reflect.DeepEqual(sent.Status.RetainedConfigs, stored.Status.RetainedConfigs) &&
		reflect.DeepEqual(sent.Status.AuxiliaryFiles, stored.Status.AuxiliaryFiles)
}

// retentionChecker judges what a promotion keeps: the checkpoint that the intent
// names, and the one that was newest before.
type retentionChecker struct {
	sees
	w        *world
	leases   *leaseHistory
	pointers *pointerChecker
	before   []checkpoint.Pointer
}

func (c *retentionChecker) changed(change fakeapi.Change) {
	before, now := c.before, c.pointers.pointers
	c.before = now
	if change.Name != checkpoint.OrdinaryName(templateName) || change.Type != "MODIFIED" || len(before) == 0 || len(now) == 0 {
		return
	}
	intended := c.leases.intent().Checksum
	for i, pointer := range before {
		if slices.Contains(now, pointer) {
			continue
		}
		if pointer.Checksum == intended {
			c.w.violate(invariantRetention, "%s drops the pointer %s that the intent names", change.Client, pointer.Name)
		}
		if i == 0 && now[0] != pointer {
			c.w.violate(invariantRetention, "%s drops the predecessor %s", change.Client, pointer.Name)
		}
	}
}
