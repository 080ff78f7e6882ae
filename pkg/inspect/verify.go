package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/view"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// Verify judges everything in the inventory. It fails only for objects that
// were given in two versions.
func Verify(inv *Inventory) (*Report, error) {
	v := &verifier{inv: inv, report: &Report{}}
	for _, namespace := range slices.Sorted(maps.Keys(inv.spaces)) {
		if err := v.verifySpace(inv.spaces[namespace]); err != nil {
			return nil, err
		}
	}
	v.noticeForeign()
	v.report.Notices = append(v.report.Notices, inv.altered...)
	if len(v.report.Checkpoints) == 0 && len(v.report.Intents) == 0 && v.report.Outcome() == Sound {
		v.notice("", checkpoint.Unknown, ReasonNothingFound, "there is no template and no checkpoint, so that nothing was verified")
	}
	return v.report, nil
}

type verifier struct {
	inv    *Inventory
	report *Report
}

func (v *verifier) notice(namespace string, state checkpoint.State, reason checkpoint.Reason, format string, args ...any) {
	v.report.Notices = append(v.report.Notices, Notice{namespace, checkpoint.Finding{
		State: state, Reason: reason, Message: fmt.Sprintf(format, args...),
	}})
}

// noticeForeign reports objects of our group that cannot be read: a later
// version may hold what is looked for.
func (v *verifier) noticeForeign() {
	known := map[string]bool{
		v1alpha1.KindTemplateConfig: true, v1alpha1.KindCfg: true, v1alpha1.KindMapFile: true,
		v1alpha1.KindGeneralFile: true, v1alpha1.KindCRTListFile: true,
	}
	for _, kind := range slices.Sorted(maps.Keys(v.inv.foreign)) {
		state := checkpoint.Note
		if _, name, _ := strings.Cut(kind, " "); known[name] {
			state = checkpoint.Unknown
		}
		v.notice("", state, ReasonUnsupportedKind, "%d objects of %s are not read", v.inv.foreign[kind], quoted(kind))
	}
}

func (v *verifier) verifySpace(sp *space) error {
	judged := map[string][]*views.RetainedCheckpoint{}
	for _, name := range slices.Sorted(maps.Keys(sp.retained)) {
		r := sp.retained[name]
		c, err := v.judge(sp, r)
		if err != nil {
			return err
		}
		v.report.Checkpoints = append(v.report.Checkpoints, *c)
		judged[r.templateName] = append(judged[r.templateName], c.View)
		if c.Promoted && !c.Verdict.Acknowledged && c.Verdict.PlanID != "" {
			// Receipts are stored before promotion, so that this one was lost or forged.
			v.notice(sp.namespace, checkpoint.Damaged, checkpoint.ReasonReceiptMissing,
				"%s: status.deployedToPods: a pointer names it, and no entry proves that a worker ran it", objectName(v1alpha1.KindCfg, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(judged)) {
		if sp.templates[name] == nil {
			v.noticeTemplate(sp, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sp.templates)) {
		t := sp.templates[name]
		uid := v.inv.uidOf(sp, t)
		leases, err := v.inv.leasesOf(sp, t, uid)
		if err != nil {
			return err
		}
		intent := view.Intent(&view.IntentInput{
			Template: &t.Template, Leases: leases, Checkpoints: judged[name],
			Intent: fencing.Effective(leases.Election, leases.Retained, uid),
		})
		if t.UID == "" {
			// One derived from nothing would be the same for all.
			intent.UID = ""
		}
		v.inv.adjustConditions(intent.Status.Conditions)
		v.report.Intents = append(v.report.Intents, intent)
		if !leases.Readable {
			v.notice(sp.namespace, checkpoint.Note, v.unreadable(), "Leases of template %s are not readable: what is intended, and so what is recoverable, is not known", name)
		}
	}
	v.noticeOutputs(sp, judged)
	return nil
}

// unreadable is why something could not be looked at.
func (v *verifier) unreadable() checkpoint.Reason {
	if v.inv.live {
		return checkpoint.ReasonNotPermitted
	}
	return ReasonNotGiven
}

// noticeTemplate reports checkpoints whose template is not there. In a cluster
// they are left over and wait for collection.
func (v *verifier) noticeTemplate(sp *space, name string) {
	object := objectName(v1alpha1.KindTemplateConfig, name)
	switch {
	case !v.inv.live:
		v.notice(sp.namespace, checkpoint.Unknown, ReasonNotGiven, "%s: it is not in the input; its checkpoints are judged by the UID they carry themselves", object)
	case v.inv.unreadable[v1alpha1.KindTemplateConfig]:
		v.notice(sp.namespace, checkpoint.Unknown, checkpoint.ReasonNotPermitted, "%s: there is no right to read it; its checkpoints are judged by the UID they carry themselves", object)
	default:
		v.notice(sp.namespace, checkpoint.Note, ReasonTemplateMissing, "%s: it does not exist; its checkpoints are left over", object)
	}
}

// noticeOutputs reports what is wrong with the pointers themselves, for every
// template that is there or that a checkpoint names.
func (v *verifier) noticeOutputs(sp *space, judged map[string][]*views.RetainedCheckpoint) {
	names := slices.Collect(maps.Keys(judged))
	for name := range sp.templates {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		root := v.inv.rootOf(sp, name, ownUID(sp, name))
		if root.fact == nil && v.inv.templatesKnown() {
			continue
		}
		object := objectName(v1alpha1.KindCfg, checkpoint.OrdinaryName(name))
		output := sp.outputs[checkpoint.OrdinaryName(name)]
		switch {
		case output == nil && v.inv.live:
			v.notice(sp.namespace, checkpoint.Note, ReasonNoCheckpoint, "%s: it does not exist, so that no checkpoint is promoted", object)
		case output == nil:
			v.notice(sp.namespace, checkpoint.Unknown, ReasonNotGiven, "%s: it is not in the input, so that nobody can tell which checkpoints are promoted", object)
		case v.inv.outputOf(sp, root) == nil:
			v.noticeOwner(sp, object, output, root)
		case output.bare && !v.inv.live:
			v.notice(sp.namespace, checkpoint.Unknown, ReasonNotGiven, "%s: it has no status, so that nobody can tell which checkpoints are promoted", object)
		case len(output.Pointers) == 0:
			v.notice(sp.namespace, checkpoint.Note, ReasonNoCheckpoint, "%s: status.retainedConfigs is empty, so that no checkpoint is promoted", object)
		default:
			v.noticePointers(sp, name, output, len(judged[name]) > 0)
		}
	}
}

func (v *verifier) noticeOwner(sp *space, object string, output *outputFact, root *root) {
	state := checkpoint.Note
	if len(output.Pointers) > 0 {
		state = checkpoint.Damaged
	}
	v.notice(sp.namespace, state, checkpoint.ReasonOwnerMismatch, "%s: %s", object, root.OwnerProblem(output.owner, sp.namespace))
}

// noticePointers reports pointers to checkpoints that are not there: damage,
// unless the input holds no checkpoint of the template at all.
func (v *verifier) noticePointers(sp *space, name string, output *outputFact, some bool) {
	for _, p := range output.Pointers {
		if r := sp.retained[p.Name]; r != nil && r.templateName == name {
			continue
		}
		object := objectName(v1alpha1.KindCfg, checkpoint.OrdinaryName(name))
		if v.inv.cameAlone(sp.namespace) {
			v.notice(sp.namespace, checkpoint.Note, ReasonNotGiven,
				"%s: status.retainedConfigs: checkpoint %s is not in the export, which holds one alone", object, quoted(p.Name))
			continue
		}
		if some || v.inv.live || sp.retained[p.Name] != nil {
			v.notice(sp.namespace, checkpoint.Damaged, ReasonCheckpointMissing,
				"%s: status.retainedConfigs: expected checkpoint %s of the template, found none", object, quoted(p.Name))
			continue
		}
		v.notice(sp.namespace, checkpoint.Unknown, ReasonNotGiven,
			"%s: status.retainedConfigs: checkpoint %s is not in the input, and no other of the template is", object, quoted(p.Name))
	}
}
