package entry

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUnescape(t *testing.T) {
	if got, want := unescape(`/a\040b\134c`), `/a b\c`; got != want {
		t.Errorf("unescape answered %q, want %q", got, want)
	}
}

func TestBelow(t *testing.T) {
	tests := []struct {
		name, path, parent string
		want               bool
	}{
		{"a folder is below itself", "/sys", "/sys", true},
		{"a child", "/sys/fs", "/sys", true},
		{"a namesake is not", "/system", "/sys", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := below(tc.path, tc.parent); got != tc.want {
				t.Errorf("below(%s, %s) = %v, want %v", tc.path, tc.parent, got, tc.want)
			}
		})
	}
}

func TestTargetFollowsLinksInsideTheRoot(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "var"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Absolute, as Debian's /var/run is: followed outside, it would lead to the host's /run.
	if err := os.Symlink("/run", filepath.Join(root, "var", "run")); err != nil {
		t.Fatal(err)
	}
	b := &builder{root: root}
	got, err := b.target("/var/run/secrets", true)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(root, "run", "secrets"); got != want {
		t.Errorf("target %s, want %s", got, want)
	}
}

func TestLookPathSearchesTheContainersPath(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "tool")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := lookPath("tool", []string{"PATH=/nowhere:" + dir})
	if err != nil || got != program {
		t.Errorf("lookPath answered %s, %v, want %s", got, err, program)
	}
	if _, err := lookPath("tool", []string{"PATH=/nowhere"}); err == nil {
		t.Error("a command outside of PATH was found")
	}
}
