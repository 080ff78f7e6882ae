package fencing

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClaimEpoch(t *testing.T) {
	tests := []struct {
		name   string
		lease  ElectionLease
		living Living
		want   uint64
		err    error
	}{
		{name: "the stored epoch rises by one", lease: election(), want: 8},
		{name: "an absent epoch counts as 0", lease: election(noEpoch), want: 1},
		{
			name: "an epoch that does not parse is not guessed",
			lease: election(func(l *ElectionLease) {
				l.EpochErr = ErrUnreadable
			}), err: ErrUnreadable,
		},
		{
			name: "the last epoch is not followed by 0",
			lease: election(func(l *ElectionLease) {
				l.Epoch = math.MaxUint64
			}), err: ErrExhausted,
		},
		{
			name:   "a lease of another living template is refused",
			lease:  election(func(l *ElectionLease) { l.Template = TemplateRef{Name: "shop", UID: "shop-uid"} }),
			living: Living{"shop-uid": "shop"}, err: ErrForeignTemplate,
		},
		{
			name:  "a lease of a template that is gone is taken over",
			lease: election(func(l *ElectionLease) { l.Template = TemplateRef{Name: "shop", UID: "shop-uid"} }),
			want:  8,
		},
		{
			name:   "a copy that names another living template is refused",
			lease:  election(withCopy(`{"uid":"shop-uid","epoch":1,"claim":"x"}`)),
			living: Living{"shop-uid": "shop"}, err: ErrForeignTemplate,
		},
		{
			name:  "a copy that names a template that is gone does not count",
			lease: election(withCopy(`{"uid":"shop-uid","epoch":1,"claim":"x"}`)),
			want:  8,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ClaimEpoch(tc.lease, term(), tc.living)
			wantError(t, "ClaimEpoch()", err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ClaimEpoch() (-want +got):\n%s", diff)
			}
		})
	}
	for name, lose := range lostLeadership() {
		t.Run(name, func(t *testing.T) {
			_, err := ClaimEpoch(election(lose), term(), nil)
			wantError(t, "ClaimEpoch()", err, ErrFenced)
		})
	}
}

func TestAForeignTemplateIsNamed(t *testing.T) {
	l := election(func(l *ElectionLease) { l.Template = TemplateRef{Name: "old-name", UID: "shop-uid"} })
	_, err := ClaimEpoch(l, term(), Living{"shop-uid": "shop"})
	var foreign *ForeignError
	if !errors.As(err, &foreign) {
		t.Fatalf("ClaimEpoch() error = %v, want a ForeignError", err)
	}
	want := ForeignError{Lease: "leader-election lease", Template: TemplateRef{Name: "shop", UID: "shop-uid"}}
	if diff := cmp.Diff(want, *foreign); diff != "" {
		t.Errorf("ForeignError (-want +got):\n%s", diff)
	}
}

func TestReclaim(t *testing.T) {
	tests := []struct {
		name  string
		floor uint64
		want  uint64
		err   error
	}{
		{name: "the epoch goes above the floor", floor: 20, want: 21},
		{name: "a floor at the own epoch asks for the next", floor: 7, want: 8},
		{name: "a floor below changes nothing", floor: 6, want: 7},
		{name: "the largest jump is followed", floor: 7 + MaxEpochJump, want: 8 + MaxEpochJump},
		{name: "a larger jump is that pod's fault", floor: 8 + MaxEpochJump, err: ErrEpochJump},
		{name: "the end of the counter is a jump too", floor: math.MaxUint64, err: ErrEpochJump},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Reclaim(election(), term(), tc.floor)
			wantError(t, "Reclaim()", err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Reclaim() (-want +got):\n%s", diff)
			}
		})
	}
	for name, lose := range lostEpoch() {
		t.Run(name, func(t *testing.T) {
			_, err := Reclaim(election(lose), term(), 20)
			wantError(t, "Reclaim()", err, ErrFenced)
		})
	}
}

func TestLiftFollowsRWithoutABound(t *testing.T) {
	got, err := Lift(election(), term(), 1<<40)
	wantError(t, "Lift()", err, nil)
	if got != 1<<40+1 {
		t.Errorf("Lift() = %d, want %d", got, uint64(1<<40+1))
	}
	_, err = Lift(election(), term(), math.MaxUint64)
	wantError(t, "Lift()", err, ErrExhausted)
}

func TestReleaseRequiresHolderAndEpoch(t *testing.T) {
	wantError(t, "Release()", Release(election(), term()), nil)
	for name, lose := range lostEpoch() {
		t.Run(name, func(t *testing.T) {
			wantError(t, "Release()", Release(election(lose), term()), ErrFenced)
		})
	}
}
