package checkpoint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pointerList makes pointers of "name:checksum" words.
func pointerList(text string) []Pointer {
	var list []Pointer
	for word := range strings.FieldsSeq(text) {
		name, checksum, _ := strings.Cut(word, ":")
		list = append(list, Pointer{Name: name, UID: "uid-" + name, Checksum: checksum})
	}
	return list
}

// manyNamed are the names n1 to that number.
func manyNamed(to int) string {
	var b strings.Builder
	for i := 1; i <= to; i++ {
		fmt.Fprintf(&b, "n%d ", i)
	}
	return b.String()
}

func TestNextPointers(t *testing.T) {
	numbered := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "n%d:s%d ", i, i)
		}
		return b.String()
	}
	reported := map[string]bool{}
	for i := range 40 {
		reported[fmt.Sprintf("s%d", i)] = true
	}
	tests := []struct {
		name, newest, previous, kept, dropped string
		keep                                  KeepRule
	}{
		{name: "the first checkpoint", newest: "a:1", kept: "a:1"},
		{name: "the predecessor stays", newest: "b:2", previous: "a:1", kept: "b:2 a:1"},
		{name: "an older one goes", newest: "c:3", previous: "b:2 a:1", kept: "c:3 b:2"},
		{name: "one that is acknowledged again moves to the front", newest: "a:1", previous: "b:2 a:1", kept: "a:1 b:2"},
		{name: "the newest again changes nothing", newest: "b:2", previous: "b:2 a:1", kept: "b:2 a:1"},
		{
			name: "one that a pod reports stays", newest: "d:4", previous: "c:3 b:2 a:1", kept: "d:4 c:3 a:1",
			keep: KeepRule{Reported: map[string]bool{"1": true}},
		},
		{
			name: "one that the intent names stays", newest: "d:4", previous: "c:3 b:2 a:1", kept: "d:4 c:3 b:2",
			keep: KeepRule{IntendedChecksum: "2"},
		},
		{
			name: "an intent without a checksum names none", newest: "d:4", previous: "c:3 b: a:1", kept: "d:4 c:3",
		},
		{
			name: "two with one checksum both stay", newest: "c:3", previous: "b:2 a:1 aa:1", kept: "c:3 b:2 a:1 aa:1",
			keep: KeepRule{Reported: map[string]bool{"1": true}},
		},
		{
			name: "sixteen fit", newest: "x:x", previous: numbered(1, 15), kept: "x:x " + numbered(1, 15),
			keep: KeepRule{Reported: reported},
		},
		{
			name: "of more the oldest are dropped", newest: "x:x", previous: numbered(1, 17), kept: "x:x " + numbered(1, 15), dropped: "n17:s17 n16:s16",
			keep: KeepRule{Reported: reported},
		},
		{
			name: "the oldest stays when the intent names it", newest: "x:x", previous: numbered(1, 17),
			kept: "x:x " + numbered(1, 14) + " n17:s17", dropped: "n16:s16 n15:s15",
			keep: KeepRule{Reported: reported, IntendedChecksum: "s17"},
		},
		{
			name: "all with the intended checksum stay, for a pointer names no plan", newest: "x:x", previous: numbered(1, 15) + "i:s40 ii:s40",
			kept: "x:x " + numbered(1, 13) + "i:s40 ii:s40", dropped: "n15:s15 n14:s14",
			keep: KeepRule{Reported: reported, IntendedChecksum: "s40"},
		},
		{
			name: "with nothing but the intended checksum the oldest go", newest: "x:i", previous: strings.Join(strings.Fields(manyNamed(17)), ":i ") + ":i",
			kept: "x:i " + strings.Join(strings.Fields(manyNamed(15)), ":i ") + ":i", dropped: "n17:i n16:i",
			keep: KeepRule{IntendedChecksum: "i"},
		},
		{
			name: "a late one that nobody wants falls out", newest: "c:3", previous: "b:2 late:1", kept: "c:3 b:2",
		},
		{
			name: "a late one that the intent names stays behind the newest", newest: "c:3", previous: "late:1 b:2 a:0", kept: "c:3 late:1",
			keep: KeepRule{IntendedChecksum: "1"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			previous := pointerList(tc.previous)
			kept, dropped := NextPointers(pointerList(tc.newest)[0], previous, tc.keep)
			if diff := cmp.Diff(pointerList(tc.kept), kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(pointerList(tc.dropped), dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(pointerList(tc.previous), previous); diff != "" {
				t.Errorf("the previous list was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfirms(t *testing.T) {
	sound := PodEntry{PodName: "p", PodUID: "u", PodRuntimeID: "r", Checksum: "c", AppliedPlanID: "P", RunningPlanID: "P", Mode: "reload"}
	with := func(change func(e *PodEntry)) PodEntry {
		e := sound
		change(&e)
		return e
	}
	tests := []struct {
		name  string
		entry PodEntry
		want  bool
	}{
		{name: "a reload", entry: sound, want: true},
		{name: "a runtime change", entry: with(func(e *PodEntry) { e.Mode = "runtime" }), want: true},
		{name: "files only", entry: with(func(e *PodEntry) { e.Mode = "file_only" }), want: true},
		{name: "nothing to do", entry: with(func(e *PodEntry) { e.Mode = "noop" }), want: true},
		{name: "operations on an older load", entry: with(func(e *PodEntry) { e.RunningPlanID, e.WorkerOpsPlanID = "O", "P" }), want: true},
		{name: "a scheduled reload", entry: with(func(e *PodEntry) { e.Mode = "scheduled" })},
		{name: "a rejection", entry: with(func(e *PodEntry) { e.Mode = "rejected" })},
		{name: "no mode", entry: with(func(e *PodEntry) { e.Mode = "" })},
		{name: "no pod name", entry: with(func(e *PodEntry) { e.PodName = "" })},
		{name: "no pod UID", entry: with(func(e *PodEntry) { e.PodUID = "" })},
		{name: "no runtime ID", entry: with(func(e *PodEntry) { e.PodRuntimeID = "" })},
		{name: "another checksum", entry: with(func(e *PodEntry) { e.Checksum = "x" })},
		{name: "another applied plan", entry: with(func(e *PodEntry) { e.AppliedPlanID = "O" })},
		{name: "no running plan", entry: with(func(e *PodEntry) { e.RunningPlanID, e.WorkerOpsPlanID = "", "P" })},
		{name: "another running plan", entry: with(func(e *PodEntry) { e.RunningPlanID = "O" })},
		{name: "operations of another plan", entry: with(func(e *PodEntry) { e.RunningPlanID, e.WorkerOpsPlanID = "O", "O" })},
		{name: "an error", entry: with(func(e *PodEntry) { e.LastError = "x" })},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.entry.Confirms("c", "P"); got != tc.want {
				t.Errorf("Confirms: %t, want %t", got, tc.want)
			}
		})
	}
	if (PodEntry{PodName: "p", PodUID: "u", PodRuntimeID: "r", RunningPlanID: "x", Mode: "reload"}).Confirms("", "") {
		t.Error("an entry confirms an output without checksum and plan ID")
	}
}

func TestSelect(t *testing.T) {
	candidate := func(name, checksum, planID string, state State, acknowledged bool) Candidate {
		return Candidate{
			Pointer: Pointer{Name: name, Checksum: checksum},
			Verdict: Verdict{State: state, PlanID: planID, Acknowledged: acknowledged, Reason: ReasonChildMissing},
		}
	}
	sound := candidate("a", "c1", "P1", Verified, true)
	tests := []struct {
		name             string
		candidates       []Candidate
		planID, checksum string
		index            int
		reason           SelectionReason
	}{
		{name: "the intended one", candidates: []Candidate{sound}, planID: "P1", checksum: "c1", index: 0, reason: Selected},
		{
			name:       "publication order does not matter, nor what the others are like",
			candidates: []Candidate{candidate("b", "c2", "P2", Damaged, false), sound}, planID: "P1", checksum: "c1", index: 1, reason: Selected,
		},
		{name: "no intent", candidates: []Candidate{sound}, planID: "", checksum: "c1", index: -1, reason: NoIntent},
		{name: "an intent without a checksum", candidates: []Candidate{sound}, planID: "P1", checksum: "", index: -1, reason: NoIntent},
		{name: "no pointer", planID: "P1", checksum: "c1", index: -1, reason: NoCheckpoint},
		{name: "a newer intent", candidates: []Candidate{sound}, planID: "P2", checksum: "c2", index: -1, reason: IntentOutranCheckpoint},
		{name: "the same content under another plan", candidates: []Candidate{sound}, planID: "P2", checksum: "c1", index: -1, reason: IntentOutranCheckpoint},
		{name: "the same plan with other content", candidates: []Candidate{sound}, planID: "P1", checksum: "c2", index: -1, reason: IntentOutranCheckpoint},
		{name: "the intended one is damaged", candidates: []Candidate{candidate("a", "c1", "P1", Damaged, true)}, planID: "P1", checksum: "c1", index: -1, reason: IntendedDamaged},
		{name: "the intended one cannot be read", candidates: []Candidate{candidate("a", "c1", "", Damaged, false)}, planID: "P1", checksum: "c1", index: -1, reason: IntendedDamaged},
		{name: "the intended one cannot be judged", candidates: []Candidate{candidate("a", "c1", "P1", Unknown, true)}, planID: "P1", checksum: "c1", index: -1, reason: IntendedUnknown},
		{name: "the intended one is not acknowledged", candidates: []Candidate{candidate("a", "c1", "P1", Verified, false)}, planID: "P1", checksum: "c1", index: -1, reason: IntendedUnacknowledged},
		{
			name:       "of two that hold the intended output the sound one is taken",
			candidates: []Candidate{candidate("b", "c1", "P1", Damaged, true), sound}, planID: "P1", checksum: "c1", index: 1, reason: Selected,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := Select(tc.candidates, tc.planID, tc.checksum)
			if got.Message == "" {
				t.Error("the selection has no message")
			}
			if name := "HAProxyCfg/a: "; tc.reason == IntendedUnacknowledged && !strings.HasPrefix(got.Message, name) {
				t.Errorf("message %q, want it to begin with %q", got.Message, name)
			}
			got.Message = ""
			if diff := cmp.Diff(Selection{Index: tc.index, Reason: tc.reason}, got); diff != "" {
				t.Errorf("Select (-want +got):\n%s", diff)
			}
		})
	}
}
