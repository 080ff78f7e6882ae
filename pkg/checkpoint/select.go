package checkpoint

import "fmt"

// Candidate is a promoted checkpoint with its verdict.
type Candidate struct {
	Pointer Pointer
	Verdict Verdict
}

// Selection is the checkpoint that recovery may use, or why there is none.
type Selection struct {
	// Index of the chosen candidate, or -1.
	Index   int
	Reason  SelectionReason
	Message string
}

// SelectionReason says why a selection came out as it did: a closed list.
type SelectionReason string

// Reasons of selections.
const (
	// Selected: the candidate at Index is the one the intent names, and sound.
	Selected SelectionReason = "Selected"
	// NoIntent: nothing was ever recorded as deployed.
	NoIntent SelectionReason = "NoIntent"
	// NoCheckpoint: no pointer exists.
	NoCheckpoint SelectionReason = "NoCheckpoint"
	// IntentOutranCheckpoint: the intent names an output that no checkpoint holds,
	// and an older one never becomes eligible again.
	IntentOutranCheckpoint SelectionReason = "IntentOutranCheckpoint"
	// IntendedDamaged: the checkpoint that the intent names is damaged.
	IntendedDamaged SelectionReason = "IntendedDamaged"
	// IntendedUnknown: the checkpoint that the intent names cannot be judged.
	IntendedUnknown SelectionReason = "IntendedUnknown"
	// IntendedUnacknowledged: no receipt proves that a worker ran it.
	IntendedUnacknowledged SelectionReason = "IntendedUnacknowledged"
)

// Select picks the checkpoint that the effective intent names by plan ID and
// content checksum, if it is verified and acknowledged. What the other candidates
// are like does not matter. Of two that hold the intended output the first sound
// one is taken. A candidate whose plan ID cannot be read counts by its checksum
// alone, so that its damage is what gets reported.
func Select(candidates []Candidate, planID, checksum string) Selection {
	switch {
	case planID == "" || checksum == "":
		return Selection{Index: -1, Reason: NoIntent, Message: "no intent with plan ID and checksum is recorded"}
	case len(candidates) == 0:
		return Selection{Index: -1, Reason: NoCheckpoint, Message: "no checkpoint pointer exists"}
	}
	refusal := Selection{
		Index:  -1,
		Reason: IntentOutranCheckpoint,
		Message: fmt.Sprintf("the intent names plan %s with checksum %s, which none of %d checkpoints holds",
			shown(planID), shown(checksum), len(candidates)),
	}
	refused := false
	for i := range candidates {
		c := &candidates[i]
		if c.Pointer.Checksum != checksum || c.Verdict.PlanID != planID && c.Verdict.PlanID != "" {
			continue
		}
		reason, message := refuse(c)
		if reason == Selected {
			return Selection{Index: i, Reason: Selected, Message: "checkpoint " + shown(c.Pointer.Name) + " is what the intent names"}
		}
		if !refused {
			refusal.Reason, refusal.Message = reason, message
			refused = true
		}
	}
	return refusal
}

// refuse says why a checkpoint may not be used, or Selected.
func refuse(c *Candidate) (SelectionReason, string) {
	v := &c.Verdict
	switch {
	case v.State == Damaged:
		return IntendedDamaged, fmt.Sprintf("%s: %s", v.Reason, v.Message)
	case v.State != Verified:
		return IntendedUnknown, fmt.Sprintf("%s: %s", v.Reason, v.Message)
	case !v.Acknowledged:
		return IntendedUnacknowledged, objectName(KindCfg, c.Pointer.Name) + ": no receipt proves that a worker ran the checkpoint"
	}
	return Selected, ""
}
