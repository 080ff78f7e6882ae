package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// mount is undone at the end of the test, before its folder is removed.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("mounting needs root")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
}

func tmpfs(t *testing.T, target string, size int) {
	t.Helper()
	mount(t, "tmpfs", target, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
}

// onTmpfs is a pod whose shared folder is a file system of its own.
func onTmpfs(t *testing.T, size int) *pod {
	t.Helper()
	p := layPodOn(t, func(shared string) { tmpfs(t, shared, size) })
	p.startHAProxy()
	p.startAgent()
	return p
}

// checkUnharmed: the pod is where it was, on disk as well, whatever it answered.
func (p *pod) checkUnharmed(what string, before *api.State, serves string) {
	p.t.Helper()
	after := p.state(true)
	if diff := cmp.Diff(before.Plans, after.Plans); diff != "" || after.Phase != before.Phase || after.InvariantViolation != "" || after.AppliedToken != before.AppliedToken {
		p.t.Fatalf("%s: phase %s, violation %q (-before +after):\n%s", what, after.Phase, after.InvariantViolation, diff)
	}
	if got := p.served(); got != serves {
		p.t.Fatalf("%s: serves %q, want %q", what, got, serves)
	}
}

func wantStage(t *testing.T, what string, err error, status int, stage string) {
	t.Helper()
	var refused *client.RefusedError
	if !errors.As(err, &refused) || refused.Status != status || refused.Detail.Stage != stage {
		t.Fatalf("%s: %v, want status %d and stage %s", what, err, status, stage)
	}
}

// TestP20FullFileSystem fills a real file system up to every amount of room an
// apply may find, page by page.
func TestP20FullFileSystem(t *testing.T) {
	t.Parallel()
	p := onTmpfs(t, 512<<10)
	p.mustLoad(p.output("round 0"))
	filler, serves, failed := filepath.Join(p.layout.dir, "filler"), "round 0", 0
	for room := 0; ; room += 4 << 10 {
		before, next := p.state(true), fmt.Sprintf("room for %d", room)
		request := p.request(p.output(next).with("a.map", strings.Repeat(next+" x\n", 1000)).with("b/b.map", next+" y\n"))
		fill(t, filler, room)
		result, err := p.client.Apply(t.Context(), p.target, request)
		switch {
		case err != nil:
			failed++
			wantStage(t, next, err, http.StatusInternalServerError, api.StageFiles)
			if !strings.Contains(err.Error(), "no space left") {
				t.Errorf("%s: %v", next, err)
			}
			p.checkUnharmed(next, before, serves)
		case !result.OK:
			t.Fatalf("%s: %+v", next, result.Error)
		default:
			serves = next
		}
		must(t, os.Remove(filler))
		if err == nil {
			break
		}
	}
	if failed < 5 {
		t.Errorf("%d applies met a full file system, want some at each stage", failed)
	}
	// A refusal on a full file system finds its way back.
	before := p.state(true)
	request := p.request(output{api.ConfigPath: p.output("x")[api.ConfigPath] + "    no-such-keyword\n"})
	fill(t, filler, 32<<10)
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || result.Mode != api.OutcomeRejected {
		t.Errorf("refusal: %+v, %v", result, err)
	}
	p.checkUnharmed("after a refusal", before, serves)
	must(t, os.Remove(filler))
	p.mustLoad(p.output("in the end"))
	p.checkNoLeftovers("in the end")
	t.Logf("%d applies met a full file system", failed)
}

// fill leaves that much room.
func fill(t *testing.T, path string, room int) {
	t.Helper()
	var free syscall.Statfs_t
	must(t, syscall.Statfs(filepath.Dir(path), &free))
	must(t, os.WriteFile(path, make([]byte, max(0, int(free.Bavail)*int(free.Bsize)-room)), 0o600))
}

// TestP20ReadOnlyFolder: nothing can be taken, everything can be told.
func TestP20ReadOnlyFolder(t *testing.T) {
	t.Parallel()
	p := onTmpfs(t, 1<<20)
	p.mustLoad(p.output("one"))
	before, request := p.state(true), p.request(p.output("two"))
	remount := func(flags uintptr) {
		must(t, syscall.Mount("tmpfs", p.layout.dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=1m"))
	}
	remount(syscall.MS_RDONLY)
	_, err := p.client.Apply(t.Context(), p.target, request)
	wantStage(t, "apply", err, http.StatusInternalServerError, api.StageFiles)
	if !strings.Contains(err.Error(), "read-only") {
		t.Errorf("apply to a read-only folder: %v", err)
	}
	_, err = p.client.Announce(t.Context(), p.target, 9)
	wantStage(t, "announcement", err, http.StatusInternalServerError, api.StageIdentity)
	p.checkUnharmed("read-only", before, "one")
	remount(0)
	p.mustLoad(p.output("two"))
}

// TestP20ForeignDevice: the sets lie on another device than the links to them.
func TestP20ForeignDevice(t *testing.T) {
	t.Parallel()
	p := layPodOn(t, func(shared string) {
		must(t, os.Mkdir(filepath.Join(shared, "sets"), 0o700))
		tmpfs(t, filepath.Join(shared, "sets"), 1<<20)
	})
	p.startHAProxy()
	p.startAgent()
	for i := range 5 {
		p.mustLoad(p.output(fmt.Sprintf("round %d", i)).with("keep.map", "a b\n"))
	}
	p.restartHAProxy()
	if state := p.state(true); state.Phase != api.PhaseConfigured || p.served() != "round 4" {
		t.Errorf("serves %q in phase %s", p.served(), state.Phase)
	}
}

// TestP20BindMountedFile: a file that something is mounted over can be neither
// removed nor replaced. A slot that holds one is passed over; the journal itself
// makes every change fail, and nothing half-done.
func TestP20BindMountedFile(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	over := filepath.Join(t.TempDir(), "over")
	writeFile(t, over, "somebody else's\n")
	for i := range maxSlots {
		if slot := fmt.Sprintf("s%d", i); !p.agent.journal.slots()[slot] {
			target := filepath.Join(p.layout.slot(slot), setFiles)
			must(t, os.MkdirAll(target, 0o700))
			writeFile(t, filepath.Join(target, api.ConfigPath), "")
			mount(t, over, filepath.Join(target, api.ConfigPath), "", syscall.MS_BIND, "")
			break
		}
	}
	for i := range 5 {
		p.mustLoad(p.output(fmt.Sprintf("round %d", i)))
	}
	before, request := p.state(true), p.request(p.output("two"))
	mount(t, over, p.layout.journal(), "", syscall.MS_BIND, "")
	_, err := p.client.Apply(t.Context(), p.target, request)
	wantStage(t, "apply", err, http.StatusInternalServerError, api.StageFiles)
	if !strings.Contains(err.Error(), "busy") {
		t.Errorf("apply over a mounted journal: %v", err)
	}
	must(t, syscall.Unmount(p.layout.journal(), syscall.MNT_DETACH))
	p.checkUnharmed("with a mounted journal", before, "round 4")
	p.mustLoad(p.output("two"))
}

// TestPlantedLinks: a link in place of a slot, or of its files, leads nobody to
// write or remove anything elsewhere.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	elsewhere := t.TempDir()
	writeFile(t, filepath.Join(elsewhere, "precious"), "x")
	must(t, os.Mkdir(filepath.Join(elsewhere, setFiles), 0o700))
	for i := range maxSlots {
		slot := fmt.Sprintf("s%d", i)
		if p.agent.journal.slots()[slot] {
			continue
		}
		must(t, os.RemoveAll(p.layout.slot(slot)))
		if i%2 == 0 {
			must(t, os.Symlink(elsewhere, p.layout.slot(slot)))
		} else {
			must(t, os.Mkdir(p.layout.slot(slot), 0o700))
			must(t, os.Symlink(elsewhere, filepath.Join(p.layout.slot(slot), setFiles)))
		}
	}
	for i := range 2 * maxSlots {
		p.mustLoad(p.output(fmt.Sprintf("round %d", i)))
	}
	if content, err := os.ReadFile(filepath.Join(elsewhere, "precious")); err != nil || string(content) != "x" {
		t.Errorf("a file behind a planted link: %q, %v", content, err)
	}
	for _, folder := range []string{elsewhere, filepath.Join(elsewhere, setFiles)} {
		entries, err := os.ReadDir(folder)
		if want := map[bool]int{true: 2, false: 0}[folder == elsewhere]; err != nil || len(entries) != want {
			t.Errorf("%s holds %v, %v", folder, entries, err)
		}
	}
	// The committed set's own files behind a link are not the committed set.
	files := filepath.Join(p.layout.set(p.agent.journal.Current), setFiles)
	must(t, os.Rename(files, filepath.Join(elsewhere, "moved")))
	must(t, os.Symlink(filepath.Join(elsewhere, "moved"), files))
	if state := p.state(true); state.InvariantViolation != violationTree || state.Phase != api.PhaseDisowned {
		t.Errorf("phase %s, violation %q", state.Phase, state.InvariantViolation)
	}
}
