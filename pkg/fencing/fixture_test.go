package fencing

import (
	"errors"
	"testing"
)

// The one template, process and term that the tables are about.
const (
	template = "t-uid"
	holder   = "pod-1_a"
	claim    = "claim-a"
)

func term() Term {
	return Term{
		TemplateUID: template, TemplateName: "web", Holder: holder,
		LeaseUID: "l-uid", Transitions: 4, Epoch: 7, Claim: claim,
	}
}

// election is L as the term wants to see it, changed by edits.
func election(edits ...func(*ElectionLease)) ElectionLease {
	l := ElectionLease{
		Exists: true, UID: "l-uid", ResourceVersion: "10", Holder: holder, Transitions: 4,
		Epoch: 7, EpochPresent: true,
	}
	for _, edit := range edits {
		edit(&l)
	}
	return l
}

// retained is R as the term wants to see it, changed by edits.
func retained(intent Intent, edits ...func(*RetainedLease)) RetainedLease {
	r := RetainedLease{
		Exists: true, UID: "r-uid", ResourceVersion: "20",
		Owner: TemplateRef{Name: "web", UID: template}, Intent: ReadIntent(intent.Encode()),
	}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func ours(edits ...func(*Intent)) Intent {
	i := Intent{UID: template, Epoch: 7, Claim: claim, PlanID: "p1", Checksum: "s1", Holder: holder}
	for _, edit := range edits {
		edit(&i)
	}
	return i
}

func withCopy(text string) func(*ElectionLease) {
	return func(l *ElectionLease) { l.Copy = ReadIntent(text) }
}

func noEpoch(l *ElectionLease) { l.Epoch, l.EpochPresent = 0, false }

func wantError(t *testing.T, call string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (want == nil) != (got == nil) {
		t.Errorf("%s error = %v, want %v", call, got, want)
	}
}

// lostLeadership is every way in which L can have stopped being the term's.
func lostLeadership() map[string]func(*ElectionLease) {
	return map[string]func(*ElectionLease){
		"the lease is gone":                    func(l *ElectionLease) { *l = ElectionLease{} },
		"the lease was recreated":              func(l *ElectionLease) { l.UID = "other" },
		"another process holds the lease":      func(l *ElectionLease) { l.Holder = "pod-2_b" },
		"nobody holds the lease":               func(l *ElectionLease) { l.Holder = "" },
		"the lease changed hands and returned": func(l *ElectionLease) { l.Transitions = 6 },
	}
}

// lostEpoch adds every way in which the epoch can have stopped being the term's.
func lostEpoch() map[string]func(*ElectionLease) {
	lost := lostLeadership()
	lost["the epoch was removed"] = noEpoch
	lost["the epoch does not parse"] = func(l *ElectionLease) { l.EpochErr = ErrUnreadable }
	lost["a newer term raised the epoch"] = func(l *ElectionLease) { l.Epoch = 8 }
	lost["the epoch regressed"] = func(l *ElectionLease) { l.Epoch = 6 }
	return lost
}

// lostClaim is every way in which R can have stopped being the term's.
func lostClaim() map[string]func(*RetainedLease) {
	return map[string]func(*RetainedLease){
		"R is gone":                      func(r *RetainedLease) { *r = RetainedLease{} },
		"R is being deleted":             func(r *RetainedLease) { r.Terminating = true },
		"R belongs to another template":  func(r *RetainedLease) { r.Owner.UID = "other" },
		"R has no owner":                 func(r *RetainedLease) { r.Owner = TemplateRef{} },
		"the intent was removed":         func(r *RetainedLease) { r.Intent = ReadIntent("") },
		"the intent does not parse":      func(r *RetainedLease) { r.Intent = ReadIntent("x") },
		"another term claimed R":         func(r *RetainedLease) { r.Intent.Intent.Claim = "claim-b" },
		"the intent is another template": func(r *RetainedLease) { r.Intent.Intent.UID = "other" },
		"the intent's epoch is above":    func(r *RetainedLease) { r.Intent.Intent.Epoch = 8 },
	}
}
