package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bootstrap := filepath.Join(dir, "own.cfg")
	if err := os.WriteFile(bootstrap, []byte("global\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		args   []string
		output string
		fails  bool
	}{
		{name: "help shows how to start", args: []string{"--help"}, output: "holdfast-agent init"},
		{name: "version", args: []string{"--version"}, output: "holdfast-agent version"},
		{name: "init takes a bootstrap file", args: []string{"init", "--dir=" + filepath.Join(dir, "d"), "--bootstrap=" + bootstrap}},
		{name: "init over a living folder is no error", args: []string{"init", "--dir=" + filepath.Join(dir, "d")}},
		{name: "init without its bootstrap file", args: []string{"init", "--dir=" + dir, "--bootstrap=/absent"}, output: "/absent", fails: true},
		{name: "run without a pod", args: []string{"run", "--pod-uid=", "--dir=" + dir}, output: "UID", fails: true},
		{name: "drain without an agent", args: []string{"drain", "--dir=" + dir}, output: "asking the agent", fails: true},
		{name: "a stray argument", args: []string{"strat"}, output: "unknown command", fails: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var output bytes.Buffer
			command := newCommand()
			command.SetArgs(tc.args)
			command.SetOut(&output)
			command.SetErr(&output)
			if err := command.ExecuteContext(t.Context()); (err != nil) != tc.fails {
				t.Errorf("error %v, want one: %t", err, tc.fails)
			}
			if !strings.Contains(output.String(), tc.output) {
				t.Errorf("output %q, want it to contain %q", output.String(), tc.output)
			}
		})
	}
	config, err := os.ReadFile(filepath.Join(dir, "d", "current", "haproxy.cfg"))
	if err != nil || string(config) != "global\n" {
		t.Errorf("bootstrap file was not laid out: %q, %v", config, err)
	}
}
