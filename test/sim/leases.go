package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// recorded is one state of the retained-state Lease.
type recorded struct {
	intent fencing.Intent
	// held says that the leader-election Lease named the intent's holder at its
	// epoch when it was written.
	held bool
}

// leaseHistory follows both Leases: who held when, and what was the intent.
type leaseHistory struct {
	sees
	w        *world
	election fencing.ElectionLease
	intents  []recorded
	// author is the process that recorded the intended output under its claim.
	author string
	// topEpoch is the highest on the current leader-election Lease.
	topEpoch uint64
}

func (h *leaseHistory) changed(c fakeapi.Change) {
	if c.GVR.Resource != "leases" {
		return
	}
	lease := decode[coordinationv1.Lease](c.New)
	gone := c.Type == "DELETED"
	switch c.Name {
	case electionName:
		if gone {
			h.election, h.topEpoch = fencing.ElectionLease{}, 0
			return
		}
		before, holder := h.election.Copy, h.election.Holder
		h.election = record.ElectionLease(lease)
		if p := h.w.process(c.Client); p != nil && holder != "" && h.election.Holder == "" && !p.owns(holder) {
			h.w.violate(invariantDrain, "%s releases the lease that %s holds", c.Client, holder)
		}
		if adopted := h.intent(); before.Present && !h.election.Copy.Present && before.Intent.HasPlan() &&
			adopted.Claim != "" && // else the retained-state lease was deleted since
			!adopted.Names(before.Intent.PlanID, before.Intent.Checksum) {
			h.w.violate(invariantIntent, "%s removes the copy of plan %s while the intent is plan %q", c.Client, before.Intent.PlanID, adopted.PlanID)
		}
		if h.election.Epoch < h.topEpoch {
			h.w.violate(invariantEpochs, "the leader-election lease goes from epoch %d to %d", h.topEpoch, h.election.Epoch)
		}
		h.topEpoch = h.election.Epoch
	case retainedName:
		if gone {
			h.intents = append(h.intents, recorded{})
			return
		}
		intent := record.RetainedLease(lease).Intent.Intent
		h.judgeRecord(c.Client, intent)
		held := h.election.Holder == intent.Holder && h.election.Epoch == intent.Epoch
		h.intents = append(h.intents, recorded{intent: intent, held: held})
	}
}

// judgeRecord compares a stored record with the one before: epochs rise from
// claim to claim, and no term records an output while it starts pods from a
// checkpoint.
func (h *leaseHistory) judgeRecord(process string, next fencing.Intent) {
	before := h.intent()
	switch {
	case next.Claim != before.Claim:
		h.author = "" // a claim keeps what another term recorded
	case next.PlanID != before.PlanID:
		h.author = process
	}
	adopted := h.election.Copy.Intent // of an earlier release, which takes precedence
	switch {
	case before.Claim == "":
	case next.Claim != before.Claim && before.HasPlan() && !next.Names(before.PlanID, before.Checksum) &&
		!(adopted.HasPlan() && next.Names(adopted.PlanID, adopted.Checksum)):
		h.w.violate(invariantIntent, "%s claims the retained-state lease and makes plan %q of it, where plan %s was recorded", process, next.PlanID, before.PlanID)
	case next.Claim != before.Claim && next.Epoch <= before.Epoch:
		h.w.violate(invariantEpochs, "%s claims the retained-state lease in epoch %d over one of epoch %d", process, next.Epoch, before.Epoch)
	case next.Claim == before.Claim && next.Holder != before.Holder:
		h.w.violate(invariantIntent, "%s writes plan %q of %s in epoch %d under the claim of %s in epoch %d",
			process, next.PlanID, next.Holder, next.Epoch, before.Holder, before.Epoch)
	case next.Epoch < before.Epoch:
		h.w.violate(invariantEpochs, "%s takes the recorded epoch from %d to %d", process, before.Epoch, next.Epoch)
	}
	if next.Claim != before.Claim || next.PlanID == before.PlanID {
		return
	}
	for _, i := range h.w.network.snapshot() {
		if i.process == process && i.isRecovery() {
			h.w.violate(invariantTerms, "%s records plan %s while %q is under way", process, next.PlanID, i.target)
		}
	}
}

// intent is what is recorded now.
func (h *leaseHistory) intent() fencing.Intent {
	if len(h.intents) == 0 {
		return fencing.Intent{}
	}
	return h.intents[len(h.intents)-1].intent
}

// recordedBy reports that the term of the epoch had the plan as its intent while it
// held the leader-election Lease. A term that rises above an agent's floor may have
// recorded with the higher epoch and still apply with the earlier one: its claim
// tells that it is the same term.
func (h *leaseHistory) recordedBy(epoch uint64, plan string) bool {
	claims := map[string]bool{}
	for _, r := range h.intents {
		if r.intent.Epoch == epoch {
			claims[r.intent.Claim] = true
		}
	}
	for _, r := range h.intents {
		if r.held && r.intent.Epoch >= epoch && r.intent.PlanID == plan && claims[r.intent.Claim] {
			return true
		}
	}
	return false
}

// newestUntil is the newest intent that terms up to the epoch recorded. A Lease
// that somebody deletes by hand takes nothing back: whoever read it right before
// acts on what the fleet was told.
func (h *leaseHistory) newestUntil(epoch uint64) fencing.Intent {
	var newest fencing.Intent
	for _, r := range h.intents {
		if r.intent.Epoch <= epoch && r != (recorded{}) {
			newest = r.intent
		}
	}
	return newest
}

// fleetChecker judges what reaches pods: invariants 1, 2, 5 and 7.
type fleetChecker struct {
	sees
	w      *world
	leases *leaseHistory
	epochs map[string]uint64
}

func (f *fleetChecker) begun(process, pod string, m *api.Manifest) {
	if !f.leases.recordedBy(m.Token.LeaderEpoch, m.PlanID) {
		f.w.violate(invariantIntent, "%s applies plan %s to %s in epoch %d, which that term did not record while it held its lease",
			process, m.PlanID, pod, m.Token.LeaderEpoch)
	}
}

func (f *fleetChecker) loaded(l load) {
	if l.token.LeaderEpoch < l.heard {
		f.w.violate(invariantTerms, "pod %s heard of epoch %d and loads plan %s of epoch %d", l.pod, l.heard, l.plan, l.token.LeaderEpoch)
	}
	if f.epochs == nil {
		f.epochs = map[string]uint64{}
	}
	if l.token.LeaderEpoch < f.epochs[l.pod] {
		f.w.violate(invariantEpochs, "pod %s goes from epoch %d to %d", l.pod, f.epochs[l.pod], l.token.LeaderEpoch)
	}
	f.epochs[l.pod] = l.token.LeaderEpoch
	if l.token.RenderSeq != 0 {
		return
	}
	// Token 0 of a term is recovery's.
	if l.previous == api.PhaseConfigured {
		f.w.violate(invariantConfigured, "recovery loads plan %s on configured pod %s", l.plan, l.pod)
	}
	if newest := f.leases.newestUntil(l.token.LeaderEpoch); newest.PlanID != l.plan {
		f.w.violate(invariantTerms, "recovery loads plan %s on pod %s, the newest intent is plan %s of epoch %d", l.plan, l.pod, newest.PlanID, newest.Epoch)
	}
}

// writeChecker judges that whatever a term publishes goes out right behind a
// look at the Leases that allows it: the part of invariant 6 that keeps a
// replica which lost its Lease from publishing, and recovery from serving what
// is superseded. A write that a check allowed leaves in the moment in which the
// check's last answer arrives, since nothing else moves then. That answer is
// about L, and whoever took R over shows in it too.
type writeChecker struct {
	sees
	w *world
	// read is what a process last heard about L.
	read map[string]lookAtElection
}

// lookAtElection is an answer about L, and the step in which it came.
type lookAtElection struct {
	lease fencing.ElectionLease
	step  int
}

func (c *writeChecker) replied(process, target string, body []byte) {
	if target != readElection {
		return
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(body, &lease); err == nil && lease.Name == electionName {
		c.read[process] = lookAtElection{record.ElectionLease(&lease), c.w.step}
	}
}

func (c *writeChecker) sent(i *item) {
	wrong := c.wrong(i.process)
	if i.isRecovery() && wrong != "" {
		c.w.violate(invariantTerms, "%s sends %q without a check of the intent right before: %s", i.process, i.key, wrong)
	}
	if i.class != classWrite || !isPublication(i.target) {
		return
	}
	if strings.HasPrefix(i.target, "delete ") {
		var options metav1.DeleteOptions
		if err := json.Unmarshal(i.body, &options); err != nil || options.Preconditions == nil ||
			options.Preconditions.UID == nil || options.Preconditions.ResourceVersion == nil {
			c.w.violate(invariantCollection, "%s sends %q without both preconditions", i.process, i.target)
		}
	}
	if wrong != "" {
		c.w.violate(invariantDrain, "%s sends %q without a check of the leases right before: %s", i.process, i.target, wrong)
	}
}

// wrong says why what a process sends now was not allowed by a check, or nothing.
func (c *writeChecker) wrong(process string) string {
	look, ok := c.read[process]
	switch p := c.w.process(process); {
	case !ok || look.step != c.w.step:
		return "no answer came"
	case p != nil && !p.owns(look.lease.Holder):
		return fmt.Sprintf("the lease is held by %q in epoch %d", look.lease.Holder, look.lease.Epoch)
	}
	return ""
}
