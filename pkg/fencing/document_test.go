package fencing

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheDocumentedIntentIsWhatTheCodeWrites(t *testing.T) {
	document, err := os.ReadFile("../../docs/wire-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(document), "```json intent\n")
	got, _, found := strings.Cut(after, "\n```")
	if !found {
		t.Fatal("the document has no example of an intent")
	}
	want := Intent{
		UID: "4d1a5b0c-6f0e-4c55-9d5b-0c8d7c1f2a11", Epoch: 7, Claim: "QX3HRD2ZVQ5T4N6M7WJ3A2YKPL",
		PlanID: "dab11d4e1e25f968", Checksum: "818464325855b5b6", Holder: "holdfast-controller-0_5f1c2f7e",
		Active: &Active{Checksum: "818464325855b5b6", Since: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)},
	}
	if diff := cmp.Diff(want.Encode(), got); diff != "" {
		t.Errorf("intent (-code +document):\n%s", diff)
	}
	read, present, err := ParseIntent(got)
	if err != nil || !present {
		t.Fatalf("the documented intent is not readable: present %t, %v", present, err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("the documented intent, read (-want +got):\n%s", diff)
	}
}
