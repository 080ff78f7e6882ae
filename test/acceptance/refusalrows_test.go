package acceptance

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// refusalRow is one reason.
type refusalRow struct {
	reason string
	// provoke returns what the event names, and what takes it back; nil for
	// what the next row goes on with.
	provoke func(r *refusals) (names []string, undo func())
	// check is the drill's that finds it, by the reason of drillReason if that is
	// another. VICTIM stands for the victim's name.
	check, drillReason string
	args               []string
}

var refusalRows = []refusalRow{
	{reason: "GateRefused", check: "gate", args: []string{"--gate"}, provoke: func(r *refusals) ([]string, func()) {
		return []string{"nbproc", r.object()}, nil
	}},
	{reason: "NoIntent", check: "intent", provoke: func(r *refusals) ([]string, func()) {
		return []string{"retained-state lease"}, r.editIntent(func(i *fencing.Intent) { i.PlanID, i.Checksum = "", "" })
	}},
	{reason: "IntentUnreadable", provoke: func(r *refusals) ([]string, func()) {
		return []string{"leases", "forbidden"}, r.editRole(func(rule *rbacv1.PolicyRule) {
			if slices.Contains(rule.Resources, "leases") {
				rule.ResourceNames = []string{templateName + "-leader"}
			}
		})
	}},
	{reason: "IntentOutranCheckpoint", check: "pointer", provoke: func(r *refusals) ([]string, func()) {
		return []string{"0123456789abcdef"}, r.editIntent(func(i *fencing.Intent) { i.PlanID, i.Checksum = "0123456789abcdef", "0123456789abcdef" })
	}},
	{reason: "StoreUnreadable", provoke: func(r *refusals) ([]string, func()) {
		return []string{"stored objects", "haproxymapfiles", "forbidden"}, r.editRole(func(rule *rbacv1.PolicyRule) {
			rule.Resources = slices.DeleteFunc(slices.Clone(rule.Resources), func(name string) bool { return name == "haproxymapfiles" })
		})
	}},
	{reason: "NoCheckpoint", check: "pointer", provoke: func(r *refusals) ([]string, func()) {
		pointers := r.publication().Pointers
		r.point()
		return []string{"status.retainedConfigs"}, func() { r.point(pointers...) }
	}},
	{reason: "PointerUntrusted", check: "pointer", provoke: func(r *refusals) ([]string, func()) {
		name := checkpoint.OrdinaryName(templateName)
		return []string{v1alpha1.KindCfg + "/" + name, "controller owner"}, r.editCfg(name, func(cfg *v1alpha1.HAProxyCfg) {
			cfg.OwnerReferences[0].Controller = nil
		})
	}},
	{reason: "SnapshotChanged", provoke: func(r *refusals) ([]string, func()) {
		return []string{v1alpha1.KindCfg + "/" + checkpoint.OrdinaryName(templateName), "status.retainedConfigs"}, r.movePointers()
	}},
	{reason: "CheckpointDamaged", check: "checkpoint", provoke: func(r *refusals) ([]string, func()) {
		return []string{r.object()}, r.editCfg(r.name(), func(cfg *v1alpha1.HAProxyCfg) { cfg.Spec.Content += "# tampered\n" })
	}},
	{reason: "CheckpointUnknown", check: "checkpoint", drillReason: "UnsupportedSetID", provoke: func(r *refusals) ([]string, func()) {
		// As a later release may store it.
		later := "v9:0123456789abcdef"
		annotated := r.editCfg(r.name(), func(cfg *v1alpha1.HAProxyCfg) { cfg.Annotations[v1alpha1.AnnotationAuxiliarySetID] = later })
		committed := r.editCfgStatus(r.name(), func(status *v1alpha1.HAProxyCfgStatus) { status.AuxiliaryFiles.SetID = later })
		return []string{r.object()}, func() { committed(); annotated() }
	}},
	{reason: "CheckpointUnacknowledged", check: "checkpoint", provoke: func(r *refusals) ([]string, func()) {
		return []string{r.object()}, r.editCfgStatus(r.name(), func(status *v1alpha1.HAProxyCfgStatus) { status.DeployedToPods = nil })
	}},
	{reason: "PodUnreachable", check: "pod proxy-on-lost-node", provoke: func(r *refusals) ([]string, func()) {
		lost := r.lostProxy(r.lostNode(), "proxy-on-lost-node")
		// At first it may be a pod that only starts.
		r.await("health tells of the starting pod", func(ctx context.Context) error { return r.wantRecoveryHealth(ctx, "PodStarting: pod "+lost.Name) })
		return []string{"pod " + lost.Name, "kubectl delete pod " + lost.Name}, func() { r.deletePod(lost, new(int64)) }
	}},
	{reason: "PodWorkerUnknown", provoke: func(r *refusals) ([]string, func()) {
		r.signal(r.victim, "haproxy", syscall.SIGSTOP)
		return []string{"pod " + r.victim.Name, "HAProxy"}, func() { r.signal(r.victim, "haproxy", syscall.SIGCONT) }
	}},
	{reason: "PodOnAnotherPlan", check: "pod VICTIM", drillReason: "PodUnverified", provoke: func(r *refusals) ([]string, func()) {
		r.give(r.victim, r.first, string(r.template.UID))
		return []string{"pod " + r.victim.Name, r.first.Plan.ID}, nil
	}},
	{reason: "PodViolating", provoke: func(r *refusals) ([]string, func()) {
		path := filepath.Join(r.folder(r.victim), "current", "maps", "hosts.map")
		content := r.read(path)
		r.write(path, append(slices.Clone(content), "# tampered\n"...))
		return []string{"pod " + r.victim.Name, "invariant"}, func() { r.write(path, content) }
	}},
	{reason: "PodDisowned", provoke: func(r *refusals) ([]string, func()) {
		return []string{"pod " + r.victim.Name, "disowned"}, r.replaceVictim
	}},
	{reason: "PodPending", provoke: func(r *refusals) ([]string, func()) {
		// The second reload comes too soon after the first.
		r.give(r.victim, r.first, string(r.template.UID))
		r.give(r.victim, r.renderNow("release", "v2"), string(r.template.UID))
		return []string{"pod " + r.victim.Name, "pending reload"}, r.replaceVictim
	}},
	{reason: "PodForeign", check: "pod VICTIM", drillReason: "PodUnverified", provoke: func(r *refusals) ([]string, func()) {
		r.give(r.victim, r.first, "another-template")
		return []string{"pod " + r.victim.Name, "another-template"}, r.replaceVictim
	}},
}
