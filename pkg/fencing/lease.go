package fencing

import (
	"slices"
)

// TemplateRef names a template as far as a Lease does.
type TemplateRef struct {
	Name string
	UID  string
}

// ElectionLease is what was read of L.
type ElectionLease struct {
	Exists          bool
	UID             string
	ResourceVersion string
	Holder          string
	Transitions     int32
	// Epoch means something only with EpochPresent and without EpochErr.
	Epoch        uint64
	EpochPresent bool
	// EpochErr wraps ErrUnreadable.
	EpochErr error
	// Template is the template whose term claimed an epoch here last, as far as
	// it was one of ours.
	Template TemplateRef
	// Copy is the intent that a 0.5 or 0.6 leader left here.
	Copy StoredIntent
}

// RetainedLease is what was read of R.
type RetainedLease struct {
	Exists          bool
	Terminating     bool
	UID             string
	ResourceVersion string
	// Owner is the template in the controller reference, zero if there is none.
	Owner  TemplateRef
	Intent StoredIntent
}

// Term is one stretch of leadership, as the process that leads knows it.
type Term struct {
	// TemplateUID and TemplateName are the template that is led.
	TemplateUID  string
	TemplateName string
	// Holder is the identity of this process, unique for each start.
	Holder string
	// LeaseUID and Transitions are those of L when the term was won. A recreated
	// Lease restarts its counters, so neither alone tells terms apart.
	LeaseUID    string
	Transitions int32
	// Epoch and Claim are what the term acts by.
	Epoch uint64
	Claim string
	// Standalone terms have no L.
	Standalone bool
}

// Living maps the UIDs of templates that exist to their names. A Lease that
// names a template outside of it was left behind.
type Living map[string]string

// ForeignUIDs lists the other templates that the two Leases name. A claim needs
// to know which of them are living; when there are none, nothing must be asked.
func ForeignUIDs(l ElectionLease, r RetainedLease, templateUID string) []string {
	var uids []string
	add := func(uid string) {
		if uid != "" && uid != templateUID && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	add(l.Template.UID)
	if l.Copy.Err == nil {
		add(l.Copy.Intent.UID)
	}
	add(r.Owner.UID)
	if r.Intent.Err == nil {
		add(r.Intent.Intent.UID)
	}
	return uids
}

// Leads requires that L still is the one the term was won on and names its
// holder. It is what can be asked before an epoch is claimed.
func Leads(l ElectionLease, t Term) error {
	switch {
	case t.Standalone:
		return nil
	case !l.Exists:
		return fenced("the leader-election lease is gone")
	case l.UID != t.LeaseUID:
		return fenced("the leader-election lease was recreated")
	case l.Holder != t.Holder:
		return fenced("the leader-election lease is held by %q", l.Holder)
	case l.Transitions != t.Transitions:
		return fenced("the leader-election lease has %d transitions, the term was won at %d", l.Transitions, t.Transitions)
	}
	return nil
}

// HoldsEpoch requires L to name the term's holder at the term's epoch. An
// absent epoch counts as 0 in the claim only; here it ends the term, since
// whoever removed it may let another term count from 0.
func HoldsEpoch(l ElectionLease, t Term) error {
	if t.Standalone {
		return nil
	}
	if err := Leads(l, t); err != nil {
		return err
	}
	switch {
	case l.EpochErr != nil:
		return fenced("the epoch on the leader-election lease does not parse")
	case !l.EpochPresent:
		return fenced("the epoch on the leader-election lease is gone")
	case l.Epoch != t.Epoch:
		return fenced("the leader-election lease is at epoch %d, the term at %d", l.Epoch, t.Epoch)
	}
	return nil
}

// holdsClaim requires R to belong to the template and to carry the term's claim.
func holdsClaim(r RetainedLease, t Term) error {
	switch {
	case !r.Exists:
		return fenced("the retained-state lease is gone")
	case r.Terminating:
		return fenced("the retained-state lease is being deleted")
	case r.Owner.UID != t.TemplateUID:
		return fenced("the retained-state lease is owned by UID %q", r.Owner.UID)
	case r.Intent.Err != nil:
		return fenced("the intent does not parse")
	case !r.Intent.Present || r.Intent.Intent.Claim != t.Claim || t.Claim == "":
		return fenced("another term claimed the retained-state lease")
	case r.Intent.Intent.UID != t.TemplateUID:
		return fenced("the intent is for template UID %q", r.Intent.Intent.UID)
	case r.Intent.Intent.Epoch > t.Epoch:
		return fenced("the intent is at epoch %d, the term at %d", r.Intent.Intent.Epoch, t.Epoch)
	}
	return nil
}
