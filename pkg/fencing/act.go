package fencing

import (
	"errors"
	"fmt"
)

// Record gives the intent that R must hold before the first apply of an output.
// L must have been read before, and must be read again afterwards and pass
// HoldsEpoch: the write can land after a successor raised the epoch, and only
// the second read keeps the output from being applied then. write is false when
// R already says so.
func Record(before ElectionLease, r RetainedLease, t Term, planID, checksum string) (intent Intent, write bool, err error) {
	if planID == "" || checksum == "" {
		return Intent{}, false, errors.New("record an intent: plan ID or checksum is empty")
	}
	return amend(before, r, t, func(i *Intent) { i.PlanID, i.Checksum = planID, checksum })
}

// Activate gives the intent with recovery marked as in force, or with nil as
// over. It changes no output and is fenced like Record.
func Activate(before ElectionLease, r RetainedLease, t Term, active *Active) (intent Intent, write bool, err error) {
	return amend(before, r, t, func(i *Intent) { i.Active = active })
}

// Restamp gives the intent under the term's epoch, after that was raised. It
// changes nothing else and is fenced like Record.
func Restamp(before ElectionLease, r RetainedLease, t Term) (intent Intent, write bool, err error) {
	return amend(before, r, t, func(*Intent) {})
}

func amend(before ElectionLease, r RetainedLease, t Term, change func(*Intent)) (Intent, bool, error) {
	if err := HoldsEpoch(before, t); err != nil {
		return Intent{}, false, err
	}
	if err := holdsClaim(r, t); err != nil {
		return Intent{}, false, err
	}
	intent := r.Intent.Intent
	intent.Epoch, intent.Holder = t.Epoch, t.Holder
	change(&intent)
	return intent, intent.Encode() != r.Intent.Intent.Encode(), nil
}

// Check requires both Leases to be the term's. R must have been read before L:
// the epoch rises before R is claimed, so both pass exactly when one read of
// both at the time of the second would have.
func Check(r RetainedLease, l ElectionLease, t Term) error {
	if err := holdsClaim(r, t); err != nil {
		return err
	}
	return HoldsEpoch(l, t)
}

// CheckIntent is Check for an output that is about to be used: the recorded
// intent must name it.
func CheckIntent(r RetainedLease, l ElectionLease, t Term, planID, checksum string) error {
	if err := Check(r, l, t); err != nil {
		return err
	}
	if !r.Intent.Intent.Names(planID, checksum) {
		return fmt.Errorf("intent names plan %q with checksum %q, not plan %q with checksum %q: %w",
			r.Intent.Intent.PlanID, r.Intent.Intent.Checksum, planID, checksum, ErrSuperseded)
	}
	return nil
}
