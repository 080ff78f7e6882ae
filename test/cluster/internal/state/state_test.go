package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaimable(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		err   error
	}{
		{name: "an empty folder may be used"},
		{name: "a folder with nothing but locks may be used", files: []string{commandLock, supervisorLock}},
		{name: "a folder with the marker is ours, whatever else is in it", files: []string{"devcluster.json", "logs"}},
		{name: "a folder with foreign files is refused", files: []string{"thesis.txt"}, err: ErrNotOurs},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := Dir(t.TempDir())
			for _, name := range tc.files {
				if err := os.WriteFile(dir.Path(name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := dir.Claimable(); !errors.Is(err, tc.err) {
				t.Errorf("Claimable() answered %v, want %v", err, tc.err)
			}
		})
	}
}

func TestRemoveLeavesForeignFoldersAlone(t *testing.T) {
	dir := Dir(t.TempDir())
	file := dir.Path("thesis.txt")
	if err := os.WriteFile(file, []byte("years of work"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.Remove(); !errors.Is(err, ErrNotOurs) {
		t.Errorf("Remove() answered %v, want %v", err, ErrNotOurs)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the foreign file is gone: %v", err)
	}
}

func TestLocksTellWhoLives(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "state"))
	if dir.Alive() {
		t.Error("a directory that does not exist is said to be alive")
	}
	lock, err := dir.LockSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	if !dir.Alive() {
		t.Error("a held directory is said to be dead")
	}
	lock.Release()
	if dir.Alive() {
		t.Error("a released directory is said to be alive")
	}
}

func TestSecondCommandIsToldToWait(t *testing.T) {
	dir := Dir(t.TempDir())
	lock, err := dir.LockCommand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dir.LockCommand(over); !errors.Is(err, ErrBusy) {
		t.Errorf("a second LockCommand answered %v, want %v", err, ErrBusy)
	}
}

func TestResolveRefusesPathsTooLongForSockets(t *testing.T) {
	if _, err := Resolve("/" + strings.Repeat("x", maxDirLength)); err == nil {
		t.Error("a path whose sockets the kernel cannot name was accepted")
	}
}

func TestWrittenStateIsReadBack(t *testing.T) {
	dir := Dir(t.TempDir())
	want := Info{PID: 7, Port: 4711, BinDir: "/bin", Ready: true}
	if err := dir.Create(want); err != nil {
		t.Fatal(err)
	}
	got, err := dir.Read()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
}
