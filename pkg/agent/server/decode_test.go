package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// FuzzJournal: what is read back names sets only, so no path can be made of it.
func FuzzJournal(f *testing.F) {
	seed, err := json.Marshal(&journal{Version: journalVersion, Current: "s1-" + strings.Repeat("0", 32),
		Good: []goodSet{{Set: "s2-" + strings.Repeat("a", 32)}}, Pending: &pending{Set: "s3-" + strings.Repeat("b", 32)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"version":1,"current":"../x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := decodeJournal(raw)
		if err != nil {
			return
		}
		for slot := range j.slots() {
			if !isSlot(slot) {
				t.Errorf("journal names slot %q", slot)
			}
		}
	})
}

func FuzzSet(f *testing.F) {
	seed, err := json.Marshal(&set{ID: "s1-" + strings.Repeat("0", 32), Bootstrap: true, Files: []api.File{{Path: "a"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := decodeSet(raw)
		if err != nil {
			return
		}
		if !isSetID(s.ID) || !s.Bootstrap && !s.isOutput() {
			t.Errorf("accepted %+v", s)
		}
	})
}

// FuzzManifestPart: decoding is strict and bounded, whatever comes.
func FuzzManifestPart(f *testing.F) {
	f.Add([]byte(`{"identity_version":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := decodeManifest(raw); err == nil && m.Validate() != nil {
			t.Error("accepted an invalid manifest")
		}
	})
}

// TestPartLimit: parts may not exceed their limits, however
// they are framed.
func TestPartLimit(t *testing.T) {
	if _, err := readPart(bytes.NewReader(make([]byte, 11)), 10); err == nil {
		t.Error("11 bytes passed a limit of 10")
	}
	if got, err := readPart(bytes.NewReader(make([]byte, 10)), 10); err != nil || len(got) != 10 {
		t.Errorf("10 bytes at a limit of 10: %v", err)
	}
}

// TestSlots: a slot is used by one set at a time, emptied before it is used
// again, and its folder outlives every set.
func TestSlots(t *testing.T) {
	l := layout{dir: t.TempDir()}
	s := newSlots(&disk{}, l)
	var claimed []*staging
	for range maxSlots {
		st, err := newStaging(s)
		must(t, err)
		claimed = append(claimed, st)
	}
	if _, err := newStaging(s); err == nil {
		t.Fatal("one slot more than there are")
	}
	file := api.Declare(api.FileSpec{Path: "a/b", Kind: api.KindMap}, []byte("x"))
	must(t, claimed[3].write(file, strings.NewReader("x")))
	folder := filepath.Join(l.set(claimed[3].id), setFiles)
	before, err := os.Stat(folder)
	must(t, err)
	must(t, claimed[3].discard())
	again, err := newStaging(s)
	must(t, err)
	if slotOf(again.id) != slotOf(claimed[3].id) || again.id == claimed[3].id {
		t.Errorf("slot of %s was used again as %s", claimed[3].id, again.id)
	}
	after, err := os.Stat(folder)
	must(t, err)
	entries, err := os.ReadDir(folder)
	must(t, err)
	if len(entries) != 0 || !os.SameFile(before, after) {
		t.Errorf("folder holds %d entries, same folder: %t", len(entries), os.SameFile(before, after))
	}
}

// TestCarryCopiesWhereLinksFail: another device or a changed mode costs a copy.
func TestCarryCopiesWhereLinksFail(t *testing.T) {
	l := layout{dir: t.TempDir()}
	fail := false
	d := &disk{}
	d.intercept(func(step string) error {
		if fail && strings.HasPrefix(step, "link ") {
			return errors.New("invalid cross-device link")
		}
		return nil
	})
	s := newSlots(d, l)
	source, err := newStaging(s)
	must(t, err)
	content := []byte("content")
	file := api.Declare(api.FileSpec{Path: "d/f", Kind: api.KindMap}, content)
	must(t, source.write(file, bytes.NewReader(content)))
	for _, linkFails := range []bool{false, true} {
		fail = linkFails
		for _, kind := range []string{api.KindMap, api.KindCert} {
			next, err := newStaging(s)
			must(t, err)
			file.Kind = kind
			carried, err := next.carry(file, source.id)
			if err != nil || !carried {
				t.Fatalf("carry as %s, links fail %t: %t, %v", kind, linkFails, carried, err)
			}
			got, mode, err := hashFile(next.root, file.Path)
			must(t, err)
			if got != file.State() || mode != modeOf(kind) {
				t.Errorf("carried as %s: %+v with mode %s", kind, got, mode)
			}
			must(t, next.discard())
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	valid := Config{PodName: "p", PodUID: "u", ListenAddress: ":1", HealthAddress: ":2", Registry: prometheus.NewRegistry()}
	must(t, valid.validate())
	for name, change := range map[string]func(*Config){
		"no name": func(c *Config) { c.PodName = "" }, "no UID": func(c *Config) { c.PodUID = "" },
		"no port": func(c *Config) { c.ListenAddress = "x" }, "no registry": func(c *Config) { c.Registry = nil },
		"a long pace": func(c *Config) { c.MinReloadInterval = 2 * maxReloadInterval },
	} {
		broken := valid
		change(&broken)
		if broken.validate() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, dir := range []string{"relative", "/a/../b", "/with space", "/" + strings.Repeat("x", maxDirBytes)} {
		if _, err := newLayout(dir); err == nil {
			t.Errorf("folder %q was accepted", dir)
		}
	}
}

// TestBoundedBufferKeepsTheEnd: refusals come after any number of warnings.
func TestBoundedBufferKeepsTheEnd(t *testing.T) {
	b := &boundedBuffer{limit: 8}
	for range 100 {
		_, err := io.WriteString(b, "warning ")
		must(t, err)
	}
	_, err := io.WriteString(b, "refusal!")
	must(t, err)
	if b.String() != "refusal!" {
		t.Errorf("kept %q", b)
	}
}
