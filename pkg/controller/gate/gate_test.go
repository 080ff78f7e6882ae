package gate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const listener = "global\n  default-path config\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\n" +
	"frontend f\n  bind \"${POD_IP}:8080\"\n"

func output(configuration string, files ...checkpoint.Artifact) *checkpoint.Output {
	return &checkpoint.Output{Configuration: []byte(configuration), Plan: &plan.Plan{ID: "0123456789abcdef"}, Artifacts: files}
}

func file(path, content string) checkpoint.Artifact {
	return checkpoint.Artifact{Descriptor: checkpoint.Descriptor{RuntimePath: path}, Content: []byte(content)}
}

func haproxy(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("needs the haproxy binary")
	}
	return path
}

var checks = []struct {
	name    string
	output  *checkpoint.Output
	want    Outcome
	message string
	line    int
}{
	{
		name:   "a listener with its files under relative paths is valid",
		output: output(listener+"  errorfile 503 files/503.http\n", file("files/503.http", "HTTP/1.1 503 No\r\n\r\nno\n")),
		want:   Valid,
	},
	{
		name: "a file that is looked for after parsing is refused, as every pod would refuse it",
		output: output(listener+"  use_backend %[req.hdr(host),lower,map(maps/hosts.map,b)]\nbackend b\n  server s 127.0.0.1:1\n",
			file("maps/hosts.map", "a b\n")),
		want: Refused,
		message: "Parsing [haproxy.cfg:10]: failed to parse use_backend rule '%[req.hdr(host),lower,map(maps/hosts.map,b)]' : " +
			"failed to parse sample expression <req.hdr(host),lower,map(maps/hosts.map,b)]> : " +
			"invalid args in converter 'map' : failed to open pattern file <maps/hosts.map>.",
		line: 10,
	},
	{
		name:    "a missing file is refused without the gate's folder in the text",
		output:  output(listener + "  errorfile 503 files/503.http\n"),
		want:    Refused,
		message: "parsing [haproxy.cfg:10] : errorfile : error opening file 'files/503.http'.",
		line:    10,
	},
	{
		name:    "nbproc is refused",
		output:  output("global\n  default-path config\n  nbproc 2\n"),
		want:    Refused,
		message: "parsing [haproxy.cfg:3] : nbproc is not supported any more since HAProxy 2.5. Threads will automatically be used on multi-processor machines if available.",
		line:    3,
	},
	{
		name:    "exit code 2, no listener, is refused",
		output:  output("global\n  default-path config\n"),
		want:    Refused,
		message: "Configuration file has no error but will not start (no listener) => exit(2).",
	},
	{
		name:   "a name that does not resolve is valid, as the pods' -dr takes it",
		output: output(listener + "backend b\n  server s name.invalid:80\n"),
		want:   Valid,
	},
	{
		name:    "a path out of the folder is never written",
		output:  output(listener, file("../x", "")),
		want:    Unknown,
		message: `writing the output for its check: path "../x" leads out of the output`,
	},
}

func TestCheck(t *testing.T) {
	for _, tc := range checks {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			got, err := New(Config{Binary: haproxy(t), Dir: dir}).Check(t.Context(), tc.output)
			if err != nil {
				t.Fatal(err)
			}
			want := Verdict{Outcome: tc.want, Message: tc.message, Line: tc.line}
			got.Version, got.Took = "", 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Check() (-want +got):\n%s", diff)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("Check() left %v behind", left)
			}
		})
	}
}

func TestCheckRemembersTheLastAnswerOfTheSameBinary(t *testing.T) {
	g := New(Config{Binary: haproxy(t)})
	for i, want := range []bool{false, true} {
		got, err := g.Check(t.Context(), output(listener))
		if err != nil {
			t.Fatal(err)
		}
		if got.Cached != want || got.Outcome != Valid {
			t.Errorf("check %d: got %+v, want valid with cached %t", i, got, want)
		}
	}
	got, err := g.Check(t.Context(), output(listener+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Cached {
		t.Errorf("another output got the remembered answer")
	}
}

// script makes a stand-in that answers -v and then does what body says.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "haproxy")
	text := "#!/bin/sh\nif [ \"$1\" = -v ]; then echo HAProxy version 9.9; exit 0; fi\n" + body + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckKillsTheWholeGroupAfterItsTime(t *testing.T) {
	child := filepath.Join(t.TempDir(), "pid")
	g := New(Config{Binary: script(t, "/bin/sleep 60 & echo $! > "+child+"; wait"), Timeout: 300 * time.Millisecond})
	got, err := g.Check(t.Context(), output(listener))
	if err != nil {
		t.Fatal(err)
	}
	if got.Outcome != Unknown || !strings.Contains(got.Message, errTimeout.Error()) {
		t.Errorf("Check() = %v, want unknown after %v", got, errTimeout)
	}
	raw, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for running(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived the check", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// running tells a process from one that is gone or waits to be reaped.
func running(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestCheckOfANewerOutputSupersedesTheQueuedOne(t *testing.T) {
	dir := t.TempDir()
	started, proceed := filepath.Join(dir, "started"), filepath.Join(dir, "proceed")
	g := New(Config{Binary: script(t, "/bin/touch "+started+"; while [ ! -e "+proceed+" ]; do /bin/sleep 0.02; done; exit 0")})
	answers := make(map[string]chan error)
	ask := func(name string) {
		answers[name] = make(chan error, 1)
		go func() {
			_, err := g.Check(context.Background(), output(listener+"# "+name+"\n"))
			answers[name] <- err
		}()
	}
	ask("first")
	await(t, "the first check to run", func() bool { _, err := os.Stat(started); return err == nil })
	ask("second")
	await(t, "the second to wait", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.waiting != nil })
	ask("third")
	if err := <-answers["second"]; !errors.Is(err, ErrSuperseded) {
		t.Errorf("the queued check ended with %v, want %v", err, ErrSuperseded)
	}
	if err := os.WriteFile(proceed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "third"} {
		if err := <-answers[name]; err != nil {
			t.Errorf("the %s check ended with %v", name, err)
		}
	}
}

func TestCheckWithoutABinaryIsUnknown(t *testing.T) {
	got, err := New(Config{Binary: "/nonexistent/haproxy"}).Check(t.Context(), output(listener))
	if err != nil {
		t.Fatal(err)
	}
	if got.Outcome != Unknown {
		t.Errorf("Check() = %v, want unknown", got)
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCheckSaysTheSameOfAFolderThatCannotBeMadeEachTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := New(Config{Binary: haproxy(t), Dir: dir})
	want := "making the gate's folder in " + dir + ": mkdir: not a directory"
	for range 2 {
		got, err := g.Check(t.Context(), output(listener))
		if err != nil || got.Outcome != Unknown || got.Message != want {
			t.Errorf("Check() = %+v, %v, want Unknown with %q", got, err, want)
		}
	}
}

// TestSweep kills a process during its check, and finds out what the next removes.
func TestSweep(t *testing.T) {
	if dir := os.Getenv("GATE_DIR"); dir != "" {
		g := New(Config{Binary: script(t, "while [ -e "+dir+" ]; do /bin/sleep 0.05; done"), Dir: dir})
		_, _ = g.Check(t.Context(), output(listener))
		return
	}
	dir := t.TempDir()
	other := exec.Command(os.Args[0], "-test.run=^TestSweep$")
	other.Env = append(os.Environ(), "GATE_DIR="+dir, "TMPDIR="+t.TempDir())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	folders := func() []string {
		found, _ := filepath.Glob(filepath.Join(dir, "*"))
		return found
	}
	await(t, "the other's check", func() bool {
		written, _ := filepath.Glob(filepath.Join(dir, "*", plan.ConfigPath))
		return len(written) == 1
	})
	long := time.Now().Add(-2 * lockGrace)
	if err := os.Chtimes(folders()[0], long, long); err != nil {
		t.Fatal(err)
	}
	g := New(Config{Binary: haproxy(t), Dir: dir})
	if g.Sweep(t.Context()); len(folders()) != 1 {
		t.Fatal("the folder of a check that goes on was removed")
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	// What the killed process was just starting lets go of the lock a moment later.
	await(t, "nothing to be left of a check that was killed", func() bool { g.Sweep(t.Context()); return len(folders()) == 0 })
}
