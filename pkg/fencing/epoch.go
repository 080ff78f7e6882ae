package fencing

import (
	"fmt"
	"math"
)

// MaxEpochJump bounds how far one pod's floor may lift an epoch. A pod that
// asks for more is broken or forged; following it would use up the counter.
const MaxEpochJump = 1_000_000

// ClaimEpoch gives the epoch that a term must write to L, by compare-and-swap,
// before it does anything else. Here and only here an absent epoch counts as 0.
func ClaimEpoch(l ElectionLease, t Term, living Living) (uint64, error) {
	if err := Leads(l, t); err != nil {
		return 0, err
	}
	if err := refuseForeignElection(l, t, living); err != nil {
		return 0, err
	}
	if l.EpochErr != nil {
		return 0, fmt.Errorf("claim an epoch: %w", l.EpochErr)
	}
	return after(l.Epoch)
}

// Reclaim gives the epoch that lifts a term above a floor that a pod reported,
// because the counter on L regressed. It is refused unless L still names the
// holder at the epoch the term claimed.
func Reclaim(l ElectionLease, t Term, floor uint64) (uint64, error) {
	if floor > t.Epoch && floor-t.Epoch > MaxEpochJump {
		return 0, fmt.Errorf("reclaim above %d from epoch %d: %w", floor, t.Epoch, ErrEpochJump)
	}
	return Lift(l, t, floor)
}

// Lift is Reclaim for a floor that R holds. R is written by terms alone, so no
// bound applies to it.
func Lift(l ElectionLease, t Term, floor uint64) (uint64, error) {
	if err := HoldsEpoch(l, t); err != nil {
		return 0, err
	}
	if floor < t.Epoch {
		return t.Epoch, nil
	}
	return after(floor)
}

// Release requires what freeing L requires: that it still is the term's. A
// Lease that moved on is another leader's and stays untouched.
func Release(l ElectionLease, t Term) error { return HoldsEpoch(l, t) }

func after(epoch uint64) (uint64, error) {
	if epoch == math.MaxUint64 {
		return 0, ErrExhausted
	}
	return epoch + 1, nil
}

func refuseForeignElection(l ElectionLease, t Term, living Living) error {
	if l.Template.UID != "" && l.Template.UID != t.TemplateUID {
		if name, alive := living[l.Template.UID]; alive {
			return &ForeignError{Lease: "leader-election lease", Template: TemplateRef{Name: name, UID: l.Template.UID}}
		}
	}
	if l.Copy.isForeign(t.TemplateUID) {
		if name, alive := living[l.Copy.Intent.UID]; alive {
			return &ForeignError{Lease: "copy of the intent", Template: TemplateRef{Name: name, UID: l.Copy.Intent.UID}}
		}
	}
	return nil
}
