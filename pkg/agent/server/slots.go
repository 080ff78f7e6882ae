package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// maxSlots is the committed set, the good ones, one on its way, and every
// upload that may be read at once, with one to spare.
const maxSlots = 1 + maxGood + 1 + maxUploads + 1

// slots are the folders that hold sets. A folder is emptied and used again, and
// never removed or renamed: a load that HAProxy gives up half-way leaves its
// master inside the folder of that set ("default-path config" changes into it),
// and with that folder gone the master could never load anything again.
type slots struct {
	disk   *disk
	layout layout

	mu     sync.Mutex
	staged map[string]bool // being written, not in the journal yet
	kept   map[string]bool // named by the journal
}

func newSlots(d *disk, l layout) *slots {
	return &slots{disk: d, layout: l, staged: make(map[string]bool), kept: make(map[string]bool)}
}

// claim empties a free slot for a new set and returns the set's identifier. A
// slot that cannot be emptied, because something was mounted into it, is passed
// over.
func (s *slots) claim() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	problem := errors.New("no slot is free")
	for i := range maxSlots {
		slot := fmt.Sprintf("s%d", i)
		if s.staged[slot] || s.kept[slot] {
			continue
		}
		if err := s.empty(slot); err != nil {
			problem = fmt.Errorf("emptying slot: %w", err)
			continue
		}
		if err := s.disk.mkdir(filepath.Join(s.layout.slot(slot), setFiles)); err != nil {
			problem = fmt.Errorf("creating slot: %w", err)
			continue
		}
		id, err := newSetID(slot)
		if err != nil {
			return "", err
		}
		s.staged[slot] = true
		return id, nil
	}
	return "", problem
}

// release gives up a staged set.
func (s *slots) release(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := slotOf(id)
	if !s.staged[slot] {
		return nil
	}
	delete(s.staged, slot)
	return s.empty(slot)
}

// hold keeps a set that the journal named and will name again.
func (s *slots) hold(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staged[slotOf(id)] = true
}

// keep follows the journal: what it names is kept, what it no longer names is
// emptied, leftovers of an earlier process included.
func (s *slots) keep(j *journal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = j.slots()
	// Whatever "current" leads to is what HAProxy starts with, journal or not.
	if target, err := os.Readlink(s.layout.current()); err == nil {
		if slot, ok := slotOfTarget(target); ok {
			s.kept[slot] = true
		}
	}
	entries, err := os.ReadDir(s.layout.sets())
	if err != nil {
		return err
	}
	var problems []error
	for _, entry := range entries {
		slot := entry.Name()
		if s.kept[slot] {
			delete(s.staged, slot) // it is the journal's now
		}
		if s.kept[slot] || s.staged[slot] {
			continue
		}
		problems = append(problems, s.empty(slot))
	}
	return errors.Join(problems...)
}

// empty removes the description first, so that a half-emptied slot is no set.
func (s *slots) empty(slot string) error {
	folder := s.layout.slot(slot)
	for _, path := range []string{folder, filepath.Join(folder, setFiles)} {
		// What a link leads to is not ours to empty, or to write into.
		if err := realFolder(path); errors.Is(err, errNotFolder) {
			return s.disk.remove(path)
		}
	}
	for _, name := range []string{setMeta, setPlan, setPlan + ".tmp", setNonce} {
		if err := s.removeIfThere(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(filepath.Join(folder, setFiles))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := s.disk.remove(filepath.Join(folder, setFiles, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// errNotFolder says that a link or something else is where a folder should be.
var errNotFolder = errors.New("is not a folder of its own")

// realFolder follows no link at the end of the path.
func realFolder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s %w", path, errNotFolder)
	}
	return nil
}

func (s *slots) removeIfThere(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.disk.remove(path)
}

// sweepLinks removes what an interrupted change left beside the sets.
func (s *slots) sweepLinks() error {
	leftovers := []string{s.layout.journal() + ".tmp", s.layout.nonce() + ".tmp", s.layout.forward(), s.layout.back()}
	for i := range maxSlots {
		leftovers = append(leftovers, filepath.Join(s.layout.slot(fmt.Sprintf("s%d", i)), setPlan+".tmp"))
	}
	for _, leftover := range leftovers {
		if err := s.removeIfThere(leftover); err != nil {
			return err
		}
	}
	return nil
}
