package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// terminal is one end of a pseudo terminal, which is what a shell gives a program.
func terminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	return master
}

func TestColoursAreForTerminalsAlone(t *testing.T) {
	const diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\x1b[2J\n+new\n same\n"
	tests := []struct {
		name, choice, noColour string
		terminal               bool
		colours, raw           bool
	}{
		{name: "a terminal", choice: "auto", terminal: true, colours: true},
		{name: "a terminal of somebody who wants none", choice: "auto", noColour: "1", terminal: true},
		{name: "a terminal and never", choice: "never", terminal: true},
		{name: "a pipe", choice: "auto", raw: true},
		{name: "a pipe into a pager that shows them", choice: "always", colours: true},
		{name: "always, against NO_COLOR", choice: "always", noColour: "1", colours: true},
		{name: "a pipe and never", choice: "never", raw: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tc.noColour)
			t.Setenv("TERM", "xterm")
			c := &colour{choice: tc.choice}
			var got string
			if tc.terminal {
				got = c.apply(diff, terminal(t))
			} else {
				got = c.apply(diff, new(bytes.Buffer))
			}
			if colours := strings.Contains(got, "\x1b[32m+new\x1b[0m\n"); colours != tc.colours {
				t.Errorf("colours are %t, want %t:\n%q", colours, tc.colours, got)
			}
			if raw := got == diff; raw != tc.raw {
				t.Errorf("byte by byte is %t, want %t:\n%q", raw, tc.raw, got)
			}
			if orders := strings.Contains(got, "\x1b[2J"); orders != tc.raw {
				t.Errorf("stored orders to a terminal are passed on: %q", got)
			}
		})
	}
}
