package server

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxDirBytes leaves room under dir for a socket's name with the suffix that
// HAProxy adds while it takes over, within the 107 bytes the kernel allows.
const maxDirBytes = 70

// layout names everything under the agent's folder.
type layout struct{ dir string }

func newLayout(dir string) (layout, error) {
	switch {
	case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir:
		return layout{}, fmt.Errorf("folder %q must be an absolute, clean path", dir)
	case len(dir) > maxDirBytes:
		return layout{}, fmt.Errorf("folder %q has %d bytes, the limit is %d for the sockets in it", dir, len(dir), maxDirBytes)
	case strings.ContainsAny(dir, " \t\"'\\#$"):
		// It is written into nonce.cfg as it is.
		return layout{}, fmt.Errorf("folder %q must hold nothing that HAProxy's parser reads as more than a letter", dir)
	}
	return layout{dir: dir}, nil
}

func (l layout) sets() string            { return filepath.Join(l.dir, "sets") }
func (l layout) slot(slot string) string { return filepath.Join(l.dir, "sets", slot) }
func (l layout) set(id string) string    { return l.slot(slotOf(id)) }
func (l layout) run() string             { return filepath.Join(l.dir, "run") }
func (l layout) current() string         { return filepath.Join(l.dir, "current") }
func (l layout) nonce() string           { return filepath.Join(l.dir, "nonce.cfg") }
func (l layout) journal() string         { return filepath.Join(l.dir, "journal.json") }
func (l layout) masterSocket() string    { return filepath.Join(l.run(), "master.sock") }
func (l layout) workerSocket() string    { return filepath.Join(l.run(), "worker.sock") }
func (l layout) agentSocket() string     { return filepath.Join(l.run(), "agent.sock") }

// Links that an apply prepares before it switches, so that neither the switch
// nor the way back needs space on a full disk.
func (l layout) forward() string { return filepath.Join(l.dir, "current.forward") }
func (l layout) back() string    { return filepath.Join(l.dir, "current.back") }

// Names within a set's folder. The output's own files have a folder to
// themselves, so no path in a manifest can meet what the agent adds.
const (
	setFiles = "files"
	setMeta  = "set.json"
	setPlan  = "plan"
	setNonce = "nonce.cfg"
)

// currentTarget is what the symlink "current" holds for a set. Relative, so
// that the folder may be mounted elsewhere in another container.
func currentTarget(id string) string { return filepath.Join("sets", slotOf(id), setFiles) }

// slotOfTarget is the reverse, as far as a link can tell.
func slotOfTarget(target string) (string, bool) {
	parts := strings.Split(target, "/")
	if len(parts) != 3 || parts[0] != "sets" || parts[1] == ".." || parts[2] != setFiles {
		return "", false
	}
	return parts[1], true
}

// nonceTarget is what the symlink nonce.cfg holds, for ever: the kernel follows
// "current" first, so ".." is the folder of the set that is current.
const nonceTarget = "current/../" + setNonce
