package fencing

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// previous is the record of the term before.
func previous(edits ...func(*Intent)) Intent {
	i := Intent{UID: template, Epoch: 6, Claim: "claim-z", PlanID: "p1", Checksum: "s1", Holder: "pod-2_z"}
	for _, edit := range edits {
		edit(&i)
	}
	return i
}

func TestClaimRetained(t *testing.T) {
	const (
		copyPlan   = `{"uid":"t-uid","epoch":6,"claim":"old","planID":"p0","checksum":"s0"}`
		copyNoPlan = `{"uid":"t-uid","epoch":6,"claim":"old"}`
	)
	adopted := ours(func(i *Intent) { i.PlanID, i.Checksum = "p0", "s0" })
	claimOnly := ours(func(i *Intent) { i.PlanID, i.Checksum = "", "" })
	tests := []struct {
		name string
		r    RetainedLease
		l    ElectionLease
		want ClaimStep
	}{
		{
			name: "the recorded output is kept", r: retained(previous()), l: election(),
			want: ClaimStep{Step: StepWrite, Intent: ours()},
		},
		{
			name: "R is created when there is none", l: election(),
			want: ClaimStep{Step: StepCreate, Intent: claimOnly},
		},
		{
			name: "an R without a record gets one", l: election(),
			r:    retained(Intent{}, func(r *RetainedLease) { r.Intent = ReadIntent("") }),
			want: ClaimStep{Step: StepWrite, Intent: claimOnly},
		},
		{
			name: "a claim whose answer was lost is found done", r: retained(ours()), l: election(),
			want: ClaimStep{Step: StepDone, Intent: ours()},
		},
		{
			name: "a record of the same epoch and another claim asks for a lift first", l: election(),
			r:    retained(previous(func(i *Intent) { i.Epoch = 7 })),
			want: ClaimStep{Step: StepLift, Floor: 7},
		},
		{
			name: "a record without a UID counts as the template's", l: election(),
			r:    retained(previous(func(i *Intent) { i.UID = "" })),
			want: ClaimStep{Step: StepWrite, Intent: ours()},
		},
		{
			name: "a record of a template that is gone is reset", l: election(),
			r:    retained(previous(func(i *Intent) { i.UID = "gone" })),
			want: ClaimStep{Step: StepWrite, Intent: claimOnly},
		},
		{
			name: "recovery of an earlier term is over", l: election(),
			r:    retained(previous(func(i *Intent) { i.Active = &Active{Checksum: "s1"} })),
			want: ClaimStep{Step: StepWrite, Intent: ours()},
		},
		{
			name: "a stored epoch above asks for a lift first", l: election(),
			r:    retained(previous(func(i *Intent) { i.Epoch = 9 })),
			want: ClaimStep{Step: StepLift, Floor: 9},
		},
		{
			name: "a copy with a plan supersedes the record",
			r:    retained(previous()), l: election(withCopy(copyPlan)),
			want: ClaimStep{Step: StepWrite, Intent: adopted, Adopted: copyPlan},
		},
		{
			name: "a copy with a plan is adopted where there is no R", l: election(withCopy(copyPlan)),
			want: ClaimStep{Step: StepCreate, Intent: adopted, Adopted: copyPlan},
		},
		{
			name: "an adopted copy is not written twice",
			r:    retained(adopted), l: election(withCopy(copyPlan)),
			want: ClaimStep{Step: StepDone, Intent: adopted, Adopted: copyPlan},
		},
		{
			name: "a copy without a plan leaves the record",
			r:    retained(previous()), l: election(withCopy(copyNoPlan)),
			want: ClaimStep{Step: StepWrite, Intent: ours(), Adopted: copyNoPlan},
		},
		{
			name: "a copy that does not parse names nothing",
			r:    retained(previous()), l: election(withCopy("broken")),
			want: ClaimStep{Step: StepWrite, Intent: ours(), Adopted: "broken"},
		},
		{
			name: "a copy of a template that is gone names nothing",
			r:    retained(previous()),
			l:    election(withCopy(`{"uid":"gone","epoch":1,"claim":"x","planID":"p0","checksum":"s0"}`)),
			want: ClaimStep{Step: StepWrite, Intent: ours(),
				Adopted: `{"uid":"gone","epoch":1,"claim":"x","planID":"p0","checksum":"s0"}`},
		},
		{
			name: "a copy from a higher epoch asks for a lift first",
			r:    retained(previous()), l: election(withCopy(`{"uid":"t-uid","epoch":12,"claim":"x"}`)),
			want: ClaimStep{Step: StepLift, Floor: 12},
		},
		{
			name: "an R of an earlier template is replaced", l: election(),
			r:    retained(previous(), func(r *RetainedLease) { r.Owner.UID = "earlier" }),
			want: ClaimStep{Step: StepReplace},
		},
		{
			name: "an R of an earlier template is replaced though its record does not parse", l: election(),
			r: retained(previous(), func(r *RetainedLease) {
				r.Owner.UID, r.Intent = "earlier", ReadIntent("broken")
			}),
			want: ClaimStep{Step: StepReplace},
		},
		{
			name: "the epoch of an earlier template's R is passed before it goes", l: election(),
			r: retained(previous(func(i *Intent) { i.Epoch = 30 }), func(r *RetainedLease) {
				r.Owner.UID = "earlier"
			}),
			want: ClaimStep{Step: StepLift, Floor: 30},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ClaimRetained(ClaimInput{Retained: tc.r, Election: tc.l, Term: term()})
			wantError(t, "ClaimRetained()", err, nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ClaimRetained() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimRetainedRefuses(t *testing.T) {
	living := Living{"shop-uid": "shop"}
	tests := []struct {
		name string
		r    RetainedLease
		l    ElectionLease
		err  error
	}{
		{
			name: "an R of another living template", l: election(), err: ErrForeignTemplate,
			r: retained(previous(), func(r *RetainedLease) { r.Owner = TemplateRef{Name: "shop", UID: "shop-uid"} }),
		},
		{
			name: "an R of the living template that took over the name", l: election(), err: ErrForeignTemplate,
			r: retained(previous(), func(r *RetainedLease) { r.Owner = TemplateRef{Name: "web", UID: "shop-uid"} }),
		},
		{
			name: "an R that nobody owns", l: election(), err: ErrForeignTemplate,
			r: retained(previous(), func(r *RetainedLease) { r.Owner = TemplateRef{} }),
		},
		{
			name: "an R of a template of another name", l: election(), err: ErrForeignTemplate,
			r: retained(previous(), func(r *RetainedLease) { r.Owner = TemplateRef{Name: "x", UID: "gone"} }),
		},
		{
			name: "a record that names another living template", l: election(), err: ErrForeignTemplate,
			r: retained(previous(func(i *Intent) { i.UID = "shop-uid" })),
		},
		{
			name: "a copy that names another living template", r: retained(previous()), err: ErrForeignTemplate,
			l: election(withCopy(`{"uid":"shop-uid","epoch":1,"claim":"x"}`)),
		},
		{
			name: "a record that does not parse", l: election(), err: ErrUnreadable,
			r: retained(previous(), func(r *RetainedLease) { r.Intent = ReadIntent("broken") }),
		},
		{
			name: "an R that is being deleted", l: election(), err: ErrTerminating,
			r: retained(previous(), func(r *RetainedLease) { r.Terminating = true }),
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ClaimRetained(ClaimInput{Retained: tc.r, Election: tc.l, Term: term(), Living: living})
			wantError(t, "ClaimRetained()", err, tc.err)
		})
	}
	for name, lose := range lostEpoch() {
		t.Run("a delayed claim: "+name, func(t *testing.T) {
			in := ClaimInput{Retained: retained(previous()), Election: election(lose), Term: term()}
			_, err := ClaimRetained(in)
			wantError(t, "ClaimRetained()", err, ErrFenced)
		})
	}
}

func TestClaimRetainedStandalone(t *testing.T) {
	alone := term()
	alone.Standalone, alone.LeaseUID, alone.Epoch = true, "", 0
	tests := []struct {
		name string
		r    RetainedLease
		want ClaimStep
		err  error
	}{
		{
			name: "the epoch counts on from R", r: retained(previous()),
			want: ClaimStep{Step: StepWrite, Intent: ours()},
		},
		{
			name: "the first claim is epoch 1",
			want: ClaimStep{Step: StepCreate, Intent: Intent{UID: template, Epoch: 1, Claim: claim, Holder: holder}},
		},
		{
			name: "a claim whose answer was lost is not counted twice", r: retained(ours()),
			want: ClaimStep{Step: StepDone, Intent: ours()},
		},
		{
			name: "the last epoch is not followed by 0",
			r:    retained(previous(func(i *Intent) { i.Epoch = math.MaxUint64 })), err: ErrExhausted,
		},
		{
			name: "an R of an earlier template is replaced",
			r:    retained(previous(), func(r *RetainedLease) { r.Owner.UID = "earlier" }),
			want: ClaimStep{Step: StepReplace},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ClaimRetained(ClaimInput{Retained: tc.r, Term: alone})
			wantError(t, "ClaimRetained()", err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ClaimRetained() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemoveCopy(t *testing.T) {
	tests := []struct {
		name            string
		l               ElectionLease
		adopted         string
		remove, changed bool
	}{
		{name: "there is no copy", l: election()},
		{name: "the copy that was adopted goes", l: election(withCopy("broken")), adopted: "broken", remove: true},
		{name: "a copy that changed is adopted first", l: election(withCopy("new")), adopted: "old", changed: true},
		{name: "a copy that appeared is adopted first", l: election(withCopy("new")), changed: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			remove, changed, err := RemoveCopy(tc.l, term(), tc.adopted)
			wantError(t, "RemoveCopy()", err, nil)
			if remove != tc.remove || changed != tc.changed {
				t.Errorf("RemoveCopy() = %v, %v, want %v, %v", remove, changed, tc.remove, tc.changed)
			}
		})
	}
	for name, lose := range lostEpoch() {
		t.Run(name, func(t *testing.T) {
			_, _, err := RemoveCopy(election(withCopy("x"), lose), term(), "x")
			wantError(t, "RemoveCopy()", err, ErrFenced)
		})
	}
}

func TestForeignUIDsNamesEachOtherTemplateOnce(t *testing.T) {
	l := election(withCopy(`{"uid":"a"}`), func(l *ElectionLease) { l.Template.UID = "b" })
	r := retained(ours(func(i *Intent) { i.UID = "c" }), func(r *RetainedLease) { r.Owner.UID = "a" })
	if diff := cmp.Diff([]string{"b", "a", "c"}, ForeignUIDs(l, r, template)); diff != "" {
		t.Errorf("ForeignUIDs() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), ForeignUIDs(election(), retained(ours()), template)); diff != "" {
		t.Errorf("ForeignUIDs() of own leases (-want +got):\n%s", diff)
	}
}
