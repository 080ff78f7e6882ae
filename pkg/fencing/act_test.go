package fencing

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecord(t *testing.T) {
	since := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	tests := []struct {
		name  string
		r     RetainedLease
		want  Intent
		write bool
	}{
		{
			name: "a new output replaces the recorded one", r: retained(ours()), write: true,
			want: ours(func(i *Intent) { i.PlanID, i.Checksum = "p2", "s2" }),
		},
		{
			name: "a record that already says so is not written",
			r:    retained(ours(func(i *Intent) { i.PlanID, i.Checksum = "p2", "s2" })),
			want: ours(func(i *Intent) { i.PlanID, i.Checksum = "p2", "s2" }),
		},
		{
			name: "a record from before a reclaim takes the epoch along", write: true,
			r:    retained(ours(func(i *Intent) { i.Epoch, i.PlanID, i.Checksum = 5, "p2", "s2" })),
			want: ours(func(i *Intent) { i.PlanID, i.Checksum = "p2", "s2" }),
		},
		{
			name: "recovery in force is not ended by a record", write: true,
			r: retained(ours(func(i *Intent) { i.Active = &Active{Checksum: "s1", Since: since} })),
			want: ours(func(i *Intent) {
				i.PlanID, i.Checksum, i.Active = "p2", "s2", &Active{Checksum: "s1", Since: since}
			}),
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, write, err := Record(election(), tc.r, term(), "p2", "s2")
			wantError(t, "Record()", err, nil)
			if write != tc.write {
				t.Errorf("Record() write = %v, want %v", write, tc.write)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Record() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordRefusesHalfAnOutput(t *testing.T) {
	for _, output := range [][2]string{{"", "s"}, {"p", ""}} {
		if _, _, err := Record(election(), retained(ours()), term(), output[0], output[1]); err == nil {
			t.Errorf("Record(%q, %q) was accepted", output[0], output[1])
		}
	}
}

func TestActivateMarksAndEndsRecovery(t *testing.T) {
	active := &Active{Checksum: "s1", Since: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	marked, write, err := Activate(election(), retained(ours()), term(), active)
	wantError(t, "Activate()", err, nil)
	if diff := cmp.Diff(ours(func(i *Intent) { i.Active = active }), marked); diff != "" || !write {
		t.Errorf("Activate() write = %v (-want +got):\n%s", write, diff)
	}
	ended, write, err := Activate(election(), retained(marked), term(), nil)
	wantError(t, "Activate(nil)", err, nil)
	if diff := cmp.Diff(ours(), ended); diff != "" || !write {
		t.Errorf("Activate(nil) write = %v (-want +got):\n%s", write, diff)
	}
}

func TestATermThatLostALeaseActsNoMore(t *testing.T) {
	acts := map[string]func(l ElectionLease, r RetainedLease) error{
		"record": func(l ElectionLease, r RetainedLease) error {
			_, _, err := Record(l, r, term(), "p2", "s2")
			return err
		},
		"activate": func(l ElectionLease, r RetainedLease) error {
			_, _, err := Activate(l, r, term(), nil)
			return err
		},
		"check": func(l ElectionLease, r RetainedLease) error { return Check(r, l, term()) },
		"check the intent": func(l ElectionLease, r RetainedLease) error {
			return CheckIntent(r, l, term(), "p1", "s1")
		},
	}
	for act, do := range acts {
		t.Run(act+" while both are held", func(t *testing.T) {
			wantError(t, act, do(election(), retained(ours())), nil)
		})
		for name, lose := range lostEpoch() {
			t.Run(act+" after "+name, func(t *testing.T) {
				wantError(t, act, do(election(lose), retained(ours())), ErrFenced)
			})
		}
		for name, lose := range lostClaim() {
			t.Run(act+" after "+name, func(t *testing.T) {
				wantError(t, act, do(election(), retained(ours(), lose)), ErrFenced)
			})
		}
	}
}

func TestAStandaloneTermNeedsItsClaimAlone(t *testing.T) {
	alone := term()
	alone.Standalone = true
	wantError(t, "Check()", Check(retained(ours()), ElectionLease{}, alone), nil)
	lost := retained(ours(), func(r *RetainedLease) { r.Intent.Intent.Claim = "claim-b" })
	wantError(t, "Check()", Check(lost, ElectionLease{}, alone), ErrFenced)
}

func TestAnEmptyClaimIsNobodys(t *testing.T) {
	unclaimed := term()
	unclaimed.Claim = ""
	r := retained(ours(func(i *Intent) { i.Claim = "" }))
	wantError(t, "Check()", Check(r, election(), unclaimed), ErrFenced)
}

func TestCheckIntentTellsASupersededOutputFromALostTerm(t *testing.T) {
	tests := []struct {
		name   string
		intent Intent
	}{
		{name: "another plan", intent: ours(func(i *Intent) { i.PlanID = "p2" })},
		{name: "another checksum", intent: ours(func(i *Intent) { i.Checksum = "s2" })},
		{name: "no output at all", intent: ours(func(i *Intent) { i.PlanID, i.Checksum = "", "" })},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := CheckIntent(retained(tc.intent), election(), term(), "p1", "s1")
			wantError(t, "CheckIntent()", err, ErrSuperseded)
		})
	}
}

func TestEffective(t *testing.T) {
	const other = `{"uid":"t-uid","epoch":6,"claim":"old","planID":"p0","checksum":"s0"}`
	record := ours()
	foreign := ours(func(i *Intent) { i.UID = "other" })
	tests := []struct {
		name         string
		l            ElectionLease
		r            RetainedLease
		want         Intent
		source       Source
		disagreement bool
		problem      error
	}{
		{name: "nothing is recorded", l: election()},
		{name: "R's record stands alone", l: election(), r: retained(record), want: record, source: SourceRetained},
		{
			name: "a copy with a plan wins and the disagreement is said",
			l:    election(withCopy(other)), r: retained(record),
			want:   Intent{UID: template, Epoch: 6, Claim: "old", PlanID: "p0", Checksum: "s0"},
			source: SourceElection, disagreement: true,
		},
		{
			name: "a copy that agrees is no disagreement",
			l:    election(withCopy(record.Encode())), r: retained(record), want: record, source: SourceElection,
		},
		{
			name: "a copy alone is enough", l: election(withCopy(record.Encode())), want: record, source: SourceElection,
		},
		{
			name: "a copy without a plan leaves R's record",
			l:    election(withCopy(`{"uid":"t-uid","epoch":6,"claim":"old"}`)), r: retained(record),
			want: record, source: SourceRetained,
		},
		{
			name: "a copy that does not parse leaves R's record and is said",
			l:    election(withCopy("broken")), r: retained(record),
			want: record, source: SourceRetained, problem: ErrUnreadable,
		},
		{
			name: "a copy of another template leaves R's record and is said",
			l:    election(withCopy(foreign.Encode())), r: retained(record),
			want: record, source: SourceRetained, problem: ErrForeignTemplate,
		},
		{
			name: "an R that does not parse is no intent", l: election(),
			r: retained(record, func(r *RetainedLease) { r.Intent = ReadIntent("broken") }), problem: ErrUnreadable,
		},
		{
			name: "an R of another template is no intent", l: election(),
			r: retained(record, func(r *RetainedLease) { r.Owner.UID = "other" }), problem: ErrForeignTemplate,
		},
		{
			name: "a record of another template is no intent", l: election(),
			r: retained(foreign), problem: ErrForeignTemplate,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := Effective(tc.l, tc.r, template)
			if diff := cmp.Diff(tc.want, got.Intent); diff != "" {
				t.Errorf("Effective() intent (-want +got):\n%s", diff)
			}
			if got.Source != tc.source || (got.Disagreement != "") != tc.disagreement {
				t.Errorf("Effective() = source %d, disagreement %q", got.Source, got.Disagreement)
			}
			wantError(t, "Effective()", got.Problem, tc.problem)
		})
	}
}
