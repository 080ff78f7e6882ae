package recovery

import (
	"github.com/holdfast-project/holdfast/pkg/selection"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNotesAreCutBehindWhatMatters(t *testing.T) {
	one := site(t, "one")
	long := strings.Repeat("ä€𝄞", 400)
	excluded := []Excluded{{Name: "old-1", Why: "has ended"}, {Name: "old-2", Why: "past its deletion grace"}}
	tests := []struct {
		name, note string
		start      string
		mentions   []string
	}{
		{
			name: "a checkpoint in use",
			note: activeNote(selection.Choice{Output: one}, Cause{Reason: "RenderFailed", Message: "line 3"}, excluded),
			start: "Checkpoint " + one.Checksum() +
				" is given to bootstrap pods, because nothing can be rendered: RenderFailed: line 3",
			mentions: []string{"old-1 (has ended), old-2 (past its deletion grace)"},
		},
		{
			name: "a checkpoint in use, with a long render error and damage elsewhere",
			note: activeNote(selection.Choice{Output: one, Damaged: []string{"web-x (NameMismatch)"}},
				Cause{Reason: "RenderFailed", Message: long}, excluded),
			start:    "Checkpoint " + one.Checksum() + " is given to bootstrap pods, because nothing can be rendered: RenderFailed: ä€",
			mentions: []string{"web-x (NameMismatch)", "old-1 (has ended)"},
		},
		{
			name: "a refusal with long texts everywhere",
			note: unavailableNote(&selection.Refusal{Reason: selection.ReasonPodUnreachable, Checksum: "0123456789abcdef", Message: "pod a: silent",
				Do: "Delete it", Also: []string{long}}, Cause{Reason: "RenderFailed", Message: long}, excluded),
			start:    "Checkpoint 0123456789abcdef: PodUnreachable: pod a: silent. Delete it",
			mentions: []string{"old-1 (has ended)", "Render error: RenderFailed: ä€"},
		},
		{
			name: "a refusal whose own message is too long",
			note: unavailableNote(&selection.Refusal{Reason: selection.ReasonGateRefused, Checksum: "0123456789abcdef", Message: long},
				Cause{Reason: "x"}, nil),
			start: "Checkpoint 0123456789abcdef: GateRefused: ä€",
		},
		{
			name:  "a refusal without a checkpoint",
			note:  unavailableNote(&selection.Refusal{Reason: selection.ReasonNoIntent, Message: "no intent"}, Cause{Reason: "x"}, nil),
			start: "Checkpoint none: NoIntent: no intent",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if len(tc.note) > 1024 || !utf8.ValidString(tc.note) {
				t.Errorf("note has %d bytes, valid %v, want at most 1024 and valid", len(tc.note), utf8.ValidString(tc.note))
			}
			if !strings.HasPrefix(tc.note, tc.start) {
				t.Errorf("note %q does not begin with %q", tc.note, tc.start)
			}
			for _, text := range tc.mentions {
				if !strings.Contains(tc.note, text) {
					t.Errorf("note %q does not mention %q", tc.note, text)
				}
			}
		})
	}
}

func TestCutKeepsCharactersWhole(t *testing.T) {
	text := strings.Repeat("a€", 20)
	for limit := 3; limit < len(text)+3; limit++ {
		got := cut(text, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("cut(%d) = %q with %d bytes", limit, got, len(got))
		}
		if trimmed := strings.TrimSuffix(got, "…"); !strings.HasPrefix(text, trimmed) || len(got) < min(limit, len(text))-3 {
			t.Errorf("cut(%d) = %q, want the longest piece that fits", limit, got)
		}
	}
	if got := cut("a\xffb", 10); got != "a?b" {
		t.Errorf("cut of bytes that are no text = %q, want %q", got, "a?b")
	}
}

func TestTheSameTextIsNewsOnce(t *testing.T) {
	var n notes
	for _, step := range []struct {
		reason, text string
		want         bool
	}{
		{selection.EventUnavailable, "a", true}, {selection.EventUnavailable, "a", false}, {selection.EventUnavailable, "b", true},
		{selection.EventUnavailable, "a", false}, {selection.EventActive, "a", true},
	} {
		if got := n.isNews(step.reason, step.text); got != step.want {
			t.Errorf("isNews(%s, %s) = %v, want %v", step.reason, step.text, got, step.want)
		}
	}
}

func TestMessagesOfHAProxyLoseTheOutputsSecrets(t *testing.T) {
	one := site(t, "one")
	text := "[ALERT] (1) : parsing [haproxy.cfg:4]: unknown keyword 'passwd' near 'hunter22'; bad PEM " + keyLine + " in 'ssl/site.pem'"
	want := "[ALERT] (1) : parsing [haproxy.cfg:4]: unknown keyword 'passwd' near '[redacted]'; bad PEM [redacted] in 'ssl/site.pem'"
	if got := selection.Redact(one, text); got != want {
		t.Errorf("selection.Redact() = %q, want %q", got, want)
	}
}

func TestTheSameAnswerOfHAProxyReadsTheSame(t *testing.T) {
	tests := []struct{ name, answer, want string }{
		{
			name: "without process IDs, and alerts alone",
			answer: "[NOTICE]   (15001) : haproxy version is 2.6.12\n[ALERT]    (15001) : config : parsing [haproxy.cfg:3] : unknown keyword 'x'\n" +
				"[ALERT]    (15001) : config : Fatal errors found in configuration.\n",
			want: "parsing [haproxy.cfg:3] : unknown keyword 'x'; Fatal errors found in configuration.",
		},
		{name: "what has another form is kept", answer: "cannot bind socket\n", want: "cannot bind socket"},
		{name: "notices are kept when nothing else is said", answer: "[NOTICE]   (1) : a\n\n[WARNING]  (2) : b\n", want: "a; b"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := selection.Alerts(tc.answer); got != tc.want {
				t.Errorf("selection.Alerts() = %q, want %q", got, tc.want)
			}
		})
	}
}
