package fencing

import (
	"errors"
	"fmt"
)

// Source is the Lease an effective intent came from.
type Source uint8

const (
	// SourceNone: no intent is recorded.
	SourceNone Source = iota
	// SourceRetained: R, where our terms record it.
	SourceRetained
	// SourceElection: the copy on L, left by a 0.5 or 0.6 leader.
	SourceElection
)

// EffectiveIntent is the intent that recovery goes by, for a reader that holds
// no term.
type EffectiveIntent struct {
	Intent Intent
	Source Source
	// Disagreement says that both Leases hold an output and they differ.
	Disagreement string
	// Problem says what could not be read or was not this template's. With
	// SourceNone it is why; else the other Lease is meant.
	Problem error
}

// Effective applies the reader's rule of all releases: the copy on L if it is
// readable, this template's and carries a plan; else R's record if it is this
// template's; else none.
func Effective(l ElectionLease, r RetainedLease, templateUID string) EffectiveIntent {
	var effective EffectiveIntent
	retained, problem := readable("retained-state lease", r.Intent, templateUID)
	if problem == nil && retained && r.Owner.UID != templateUID {
		retained = false
		problem = &ForeignError{Lease: "retained-state lease", Template: r.Owner}
	}
	recorded, copyProblem := readable("copy on the leader-election lease", l.Copy, templateUID)
	effective.Problem = errors.Join(problem, copyProblem)

	if recorded && l.Copy.Intent.HasPlan() {
		effective.Intent, effective.Source = l.Copy.Intent, SourceElection
		if retained && !r.Intent.Intent.Names(l.Copy.Intent.PlanID, l.Copy.Intent.Checksum) {
			effective.Disagreement = fmt.Sprintf(
				"the leader-election lease names plan %q with checksum %q, the retained-state lease plan %q with checksum %q",
				l.Copy.Intent.PlanID, l.Copy.Intent.Checksum, r.Intent.Intent.PlanID, r.Intent.Intent.Checksum)
		}
		return effective
	}
	if retained {
		effective.Intent, effective.Source = r.Intent.Intent, SourceRetained
	}
	return effective
}

func readable(where string, stored StoredIntent, templateUID string) (bool, error) {
	switch {
	case !stored.Present:
		return false, nil
	case stored.Err != nil:
		return false, fmt.Errorf("%s: %w", where, stored.Err)
	case stored.isForeign(templateUID):
		return false, &ForeignError{Lease: where, Template: TemplateRef{UID: stored.Intent.UID}}
	}
	return true, nil
}
