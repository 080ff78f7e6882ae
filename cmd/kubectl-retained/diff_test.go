package main

import (
	"strings"
	"testing"
)

func TestDiffAndConfigOfAnExport(t *testing.T) {
	sound := exports + "sound.yaml"
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"two that differ", []string{"diff", "-f", sound, checksumsOf(t)[0], checksumsOf(t)[1]}, 1, "+shop.example app"},
		{"one and itself", []string{"diff", "-f", sound, checksumsOf(t)[0], checksumsOf(t)[0]}, 0, ""},
		{"one that is not there", []string{"diff", "-f", sound, "none", checksumsOf(t)[0]}, exitUnusable, "found none"},
		{"a configuration", []string{"config", "-f", sound, checksumsOf(t)[0]}, 0, "backend app"},
		{"a map", []string{"config", "-f", sound, checksumsOf(t)[1], "--path", "/etc/haproxy/maps/hosts.map"}, 0, "shop.example app"},
		{"a file that is not there", []string{"config", "-f", sound, checksumsOf(t)[1], "--path", "x"}, exitUnusable, "has no file x"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errOut := called(t, "", append([]string{"kubectl-retained"}, tc.args...)...)
			if code != tc.code || !strings.Contains(out+errOut, tc.says) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s%s", code, tc.code, tc.says, out, errOut)
			}
			if strings.Contains(out+errOut, "PRIVATE KEY") {
				t.Error("a key is shown")
			}
		})
	}
}

// checksumsOf are those of the export's checkpoints, the older one first.
func checksumsOf(t *testing.T) []string {
	t.Helper()
	_, out, _ := called(t, "", "kubectl-retained", "status", "-f", exports+"sound.yaml")
	var names []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.Contains(fields[0], "-retained-") {
			names = append(names, fields[0])
		}
	}
	if len(names) != 2 {
		t.Fatalf("the export has checkpoints %v", names)
	}
	return names
}
