package fencing

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIntentEncodesItsMembersInTheDocumentedOrder(t *testing.T) {
	since := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	tests := []struct {
		name   string
		intent Intent
		want   string
	}{
		{
			name: "everything is set",
			intent: Intent{UID: "u", Epoch: 7, Claim: "c", PlanID: "p", Checksum: "s", Holder: "h",
				Active: &Active{Checksum: "s", Since: since}},
			want: `{"uid":"u","epoch":7,"claim":"c","planID":"p","checksum":"s","holder":"h",` +
				`"active":{"checksum":"s","since":"2026-05-04T03:02:01Z"}}`,
		},
		{
			name:   "a claim without an output leaves the rest out",
			intent: Intent{UID: "u", Epoch: 7, Claim: "c"},
			want:   `{"uid":"u","epoch":7,"claim":"c"}`,
		},
		{
			name:   "an epoch beyond a float's precision survives",
			intent: Intent{UID: "u", Epoch: 1<<64 - 1, Claim: "c"},
			want:   `{"uid":"u","epoch":18446744073709551615,"claim":"c"}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.intent.Encode()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Encode() (-want +got):\n%s", diff)
			}
			back, present, err := ParseIntent(got)
			if err != nil || !present {
				t.Fatalf("ParseIntent() = present %v, error %v", present, err)
			}
			if diff := cmp.Diff(tc.intent, back); diff != "" {
				t.Errorf("ParseIntent(Encode()) (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseIntent(t *testing.T) {
	tests := []struct {
		name    string
		text    string
		want    Intent
		present bool
		err     error
	}{
		{name: "an absent annotation is no intent", text: ""},
		{
			name: "a record of 0.6 has no holder", text: `{"uid":"u","epoch":3,"claim":"c","planID":"p","checksum":"s"}`,
			want: Intent{UID: "u", Epoch: 3, Claim: "c", PlanID: "p", Checksum: "s"}, present: true,
		},
		{
			name: "unknown members of a later release are ignored", text: ` {"uid":"u","later":{"a":1},"epoch":1,"claim":"c"}`,
			want: Intent{UID: "u", Epoch: 1, Claim: "c"}, present: true,
		},
		{name: "text that is not JSON is refused", text: "nonsense", present: true, err: ErrUnreadable},
		{name: "null is no record", text: "null", present: true, err: ErrUnreadable},
		{name: "a list is no record", text: "[]", present: true, err: ErrUnreadable},
		{name: "two records are none", text: "{}{}", present: true, err: ErrUnreadable},
		{name: "a negative epoch is refused", text: `{"epoch":-1}`, present: true, err: ErrUnreadable},
		{name: "an epoch as text is refused", text: `{"epoch":"1"}`, present: true, err: ErrUnreadable},
		{name: "a plan without a checksum is refused", text: `{"planID":"p"}`, present: true, err: ErrUnreadable},
		{name: "a checksum without a plan is refused", text: `{"checksum":"s"}`, present: true, err: ErrUnreadable},
		{
			name: "a text beyond the bound is refused",
			text: `{"uid":"` + strings.Repeat("x", maxIntentBytes) + `"}`, present: true, err: ErrUnreadable,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, present, err := ParseIntent(tc.text)
			if !errors.Is(err, tc.err) || (tc.err == nil) != (err == nil) {
				t.Errorf("ParseIntent() error = %v, want %v", err, tc.err)
			}
			if present != tc.present {
				t.Errorf("ParseIntent() present = %v, want %v", present, tc.present)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ParseIntent() (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseIntent(f *testing.F) {
	f.Add("")
	f.Add(`{"uid":"u","epoch":3,"claim":"c","planID":"p","checksum":"s","holder":"h"}`)
	f.Add(`{"epoch":1e3,"active":{"since":"2026-05-04T03:02:01Z"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		intent, present, err := ParseIntent(text)
		if err != nil && !errors.Is(err, ErrUnreadable) {
			t.Fatalf("error %v is not ErrUnreadable", err)
		}
		if err != nil || !present {
			return
		}
		again, _, err := ParseIntent(intent.Encode())
		if err != nil {
			t.Fatalf("own encoding does not parse: %v", err)
		}
		if again.Encode() != intent.Encode() {
			t.Fatalf("encoding is not stable: %q then %q", intent.Encode(), again.Encode())
		}
	})
}
