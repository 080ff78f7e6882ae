package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fleetExport = `---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: proxy-9, namespace: edge, uid: p9, labels: {app: proxy}}
spec: {nodeName: n1}
status: {phase: Running, podIP: 10.244.0.9}
`

// TestADrillLeavesNoKeysBehind: the gate's folder is gone with the answer, which
// is HAProxy's own.
func TestADrillLeavesNoKeysBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	sound := read(t, exports+"sound.yaml") + fleetExport
	tests := []struct{ name, haproxy, says string }{
		{name: "no binary", haproxy: "/nonexistent/haproxy", says: "GateUnknown"},
		{name: "a binary that refuses", haproxy: script(t, "exit 1"), says: "GateRefused"},
		{name: "a binary that looks at what it is given", haproxy: script(t, `
			for file; do :; done
			test "$(stat -c %a "$(dirname "$file")")" = 700 && test "$(stat -c %a "$file")" = 600`), says: "Passed"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, out, errOut := called(t, sound, "kubectl-retained", "drill", "-f", "-", "--gate", "--haproxy", tc.haproxy)
			var gate string
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "gate ") {
					gate = line
				}
			}
			if !strings.Contains(gate, tc.says) {
				t.Errorf("the gate's row is %q, want %s\n%s", gate, tc.says, errOut)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("the drill left %v behind", left)
			}
		})
	}
}

// script makes a stand-in for HAProxy that answers -v and then does what body
// says.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "haproxy")
	text := "#!/bin/sh\nPATH=/usr/bin:/bin\nif [ \"$1\" = -v ]; then echo HAProxy version 9.9; exit 0; fi\n" + body + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
