package fencing

// Step is what a claim on R must do next.
type Step uint8

const (
	// StepDone: R already carries the claim.
	StepDone Step = iota
	// StepCreate: create R, owned by the template, with the intent.
	StepCreate
	// StepWrite: write the intent to R with the resourceVersion that was read.
	StepWrite
	// StepReplace: delete R with UID and resourceVersion preconditions, then
	// read again. It belongs to an earlier template of the same name.
	StepReplace
	// StepLift: lift the epoch on L above Floor, which another term used, then
	// read again.
	StepLift
)

// ClaimInput is what a claim decides by. R must have been read before L: the
// epoch rises before R is claimed, so a claim that the first read missed shows
// in the second.
type ClaimInput struct {
	Retained RetainedLease
	Election ElectionLease
	Term     Term
	Living   Living
}

// ClaimStep is one step of a claim.
type ClaimStep struct {
	Step Step
	// Intent is what StepCreate and StepWrite store, and what StepDone found.
	Intent Intent
	// Floor is what StepLift must exceed.
	Floor uint64
	// Adopted is the text of the copy on L that Intent takes into account. The
	// copy may be removed only while it is still this text.
	Adopted string
}

// ClaimRetained decides the next step by which a term makes R its own. It keeps
// the recorded output, adopts the copy that an earlier release left on L, and
// refuses to go below an epoch that is stored.
func ClaimRetained(in ClaimInput) (ClaimStep, error) {
	if err := HoldsEpoch(in.Election, in.Term); err != nil {
		return ClaimStep{}, err
	}
	if err := refuseForeignElection(in.Election, in.Term, in.Living); err != nil {
		return ClaimStep{}, err
	}
	replace, err := judgeRetained(in)
	if err != nil {
		return ClaimStep{}, err
	}
	t := in.Term
	// An epoch that another claim holds was another term's, even if it equals
	// ours: L was recreated and counts it a second time. Agents could not tell
	// the two terms apart.
	if floor := storedFloor(in); !t.Standalone && floor >= t.Epoch {
		return ClaimStep{Step: StepLift, Floor: floor}, nil
	}
	if replace {
		return ClaimStep{Step: StepReplace}, nil
	}
	return claimWith(in)
}

// claimWith writes the term into the record that R holds.
func claimWith(in ClaimInput) (ClaimStep, error) {
	t, kept := in.Term, in.Retained.Intent
	epoch := t.Epoch
	if t.Standalone {
		// Only R counts terms here, and a claim that is already ours stays.
		if kept.isFor(t.TemplateUID) && kept.Intent.Claim == t.Claim {
			return ClaimStep{Step: StepDone, Intent: kept.Intent}, nil
		}
		next, err := after(kept.Intent.Epoch)
		if err != nil {
			return ClaimStep{}, err
		}
		epoch = next
	}
	// Active ends with the term that recovered: the new one has not recovered
	// anything yet.
	intent := Intent{UID: t.TemplateUID, Epoch: epoch, Claim: t.Claim, Holder: t.Holder}
	if kept.isFor(t.TemplateUID) {
		intent.PlanID, intent.Checksum = kept.Intent.PlanID, kept.Intent.Checksum
	}
	step := ClaimStep{Step: StepWrite, Intent: intent}
	if !t.Standalone && in.Election.Copy.Present {
		step.Adopted = in.Election.Copy.Text
		// A copy without a plan is a leader that deployed nothing, and one that
		// does not parse names nothing: R's record stands in both cases.
		if recorded := in.Election.Copy; recorded.isFor(t.TemplateUID) && recorded.Intent.HasPlan() {
			step.Intent.PlanID, step.Intent.Checksum = recorded.Intent.PlanID, recorded.Intent.Checksum
		}
	}
	switch {
	case !in.Retained.Exists:
		step.Step = StepCreate
	case kept.Present && kept.Intent == step.Intent:
		step.Step = StepDone
	}
	return step, nil
}

// judgeRetained tells whose R is. An owner that exists no more is an earlier
// template of this name; R's name is made from the template's.
func judgeRetained(in ClaimInput) (replace bool, err error) {
	r, t := in.Retained, in.Term
	switch {
	case !r.Exists:
		return false, nil
	case r.Terminating:
		return false, ErrTerminating
	case r.Owner.UID != t.TemplateUID:
		if name, alive := in.Living[r.Owner.UID]; alive {
			return false, &ForeignError{Lease: "retained-state lease", Template: TemplateRef{Name: name, UID: r.Owner.UID}}
		}
		if r.Owner.UID == "" || r.Owner.Name != t.TemplateName {
			return false, &ForeignError{Lease: "retained-state lease", Template: r.Owner}
		}
		return true, nil
	case r.Intent.Err != nil:
		// Overwriting it would forget an epoch that a paused term may be above.
		return false, r.Intent.Err
	}
	if r.Intent.isForeign(t.TemplateUID) {
		if name, alive := in.Living[r.Intent.Intent.UID]; alive {
			return false, &ForeignError{Lease: "retained-state lease", Template: TemplateRef{Name: name, UID: r.Intent.Intent.UID}}
		}
	}
	return false, nil
}

// storedFloor is the highest epoch that intents of other claims hold, whichever
// template wrote them: agents saw those epochs.
func storedFloor(in ClaimInput) uint64 {
	floor := uint64(0)
	if r := in.Retained; r.Exists && r.Intent.Err == nil && r.Intent.Intent.Claim != in.Term.Claim {
		floor = r.Intent.Intent.Epoch
	}
	if in.Election.Copy.Present && in.Election.Copy.Err == nil {
		floor = max(floor, in.Election.Copy.Intent.Epoch)
	}
	return floor
}

// RemoveCopy reports whether L still carries the copy that the claim adopted,
// to be removed by compare-and-swap. changed means that another copy is there:
// the claim must be repeated first, or its plan would be lost.
func RemoveCopy(l ElectionLease, t Term, adopted string) (remove, changed bool, err error) {
	if t.Standalone {
		return false, false, nil
	}
	if err := HoldsEpoch(l, t); err != nil {
		return false, false, err
	}
	if !l.Copy.Present {
		return false, false, nil
	}
	if l.Copy.Text != adopted {
		return false, true, nil
	}
	return true, false, nil
}
