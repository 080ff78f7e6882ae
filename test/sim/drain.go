package sim

import (
	"encoding/json"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// drainChecker judges graceful stops: invariant 6.
type drainChecker struct {
	sees
	w *world
	// acked are the plans whose receipts reached a process.
	acked map[string]map[string]bool
	// refused are the plans that a pod turned down because it heard of a later
	// term than the process's: one whose epochs went with both Leases. A leader
	// raises its epoch over that and tries again; a drain does not wait for it.
	refused map[string]map[string]bool
	// released is who released the leader-election Lease, until it is held again.
	released string
}

func (d *drainChecker) acknowledged(process string, m *api.Manifest) {
	note(d.acked, process, m.PlanID)
}
func (d *drainChecker) outranked(process string, m *api.Manifest) { note(d.refused, process, m.PlanID) }

func note(plans map[string]map[string]bool, process, plan string) {
	if plans[process] == nil {
		plans[process] = map[string]bool{}
	}
	plans[process][plan] = true
}

func (d *drainChecker) changed(c fakeapi.Change) {
	if c.Name != electionName || c.New == nil {
		return
	}
	d.released = ""
	if record.ElectionLease(decode[coordinationv1.Lease](c.New)).Holder == "" {
		d.released = c.Client
	}
}

// judge is called when a process has stopped gracefully and undisturbed, with
// rendering not blocked and every pod in reach: then its last dispatch must have
// been acknowledged within the drain, and the checkpoint be there.
func (d *drainChecker) judge(p *process) {
	intent := d.w.leases.intent()
	if d.released != p.name || d.w.leases.author != p.name {
		return // it did not lead, or lost its Lease, or dispatched nothing
	}
	if d.refused[p.name][intent.PlanID] && !d.acked[p.name][intent.PlanID] {
		return // nobody has the output, so there is no receipt to publish
	}
	if newest := d.w.pointers.newest(); newest.Checksum != intent.Checksum {
		d.w.violate(invariantDrain, "%s stopped gracefully; the intent is %s (acknowledged to it: %v), the newest checkpoint %s",
			p.name, intent.Checksum, d.acked[p.name][intent.PlanID], newest.Checksum)
	}
}

// expiredLease shows a Lease as one that ran out.
func expiredLease(raw []byte) []byte {
	var lease coordinationv1.Lease
	if err := json.Unmarshal(raw, &lease); err != nil || lease.Name != electionName {
		return raw
	}
	lease.Spec.LeaseDurationSeconds = new(int32)
	changed, err := json.Marshal(&lease)
	if err != nil {
		return raw
	}
	return changed
}
