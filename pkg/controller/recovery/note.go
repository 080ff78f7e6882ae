package recovery

import (
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-project/holdfast/pkg/selection"
)

// maxNoteBytes is the API's limit for the text of an event.
const maxNoteBytes = 1024

// What the render error and the pods that are not counted may take of a note
// that has a cause of its own.
const (
	maxCauseBytes    = 200
	maxExcludedBytes = 200
)

// activeNote says that a checkpoint is in use and why: checksum and cause first,
// since a long text is cut at its end. It names no started pods, for the same
// notice would be news with every one of them.
func activeNote(c selection.Choice, cause Cause, excluded []Excluded) string {
	text := fmt.Sprintf("Checkpoint %s is given to bootstrap pods, because nothing can be rendered: %s: %s",
		c.Output.Checksum(), cause.Reason, cut(cause.Message, maxNoteBytes/2))
	if len(c.Damaged) > 0 {
		text += ". Damaged, but not needed now: " + strings.Join(c.Damaged, ", ")
	}
	return cut(text+leftOut(excluded), maxNoteBytes)
}

// unavailableNote says why bootstrap pods are left as they are: checksum and
// reason first, and what may be cut off last.
func unavailableNote(f *selection.Refusal, cause Cause, excluded []Excluded) string {
	checksum := f.Checksum
	if checksum == "" {
		checksum = "none"
	}
	text := fmt.Sprintf("Checkpoint %s: %s%s. Render error: %s: %s",
		checksum, f.Error(), cut(leftOut(excluded), maxExcludedBytes), cause.Reason, cut(cause.Message, maxCauseBytes))
	return cut(text+also(f), maxNoteBytes)
}

func also(f *selection.Refusal) string {
	if len(f.Also) == 0 {
		return ""
	}
	return ". Also " + strings.Join(f.Also, "; ")
}

func leftOut(excluded []Excluded) string {
	if len(excluded) == 0 {
		return ""
	}
	parts := make([]string, 0, len(excluded))
	for _, e := range excluded {
		parts = append(parts, e.Name+" ("+e.Why+")")
	}
	return ". Not counted: " + strings.Join(parts, ", ")
}

// cut shortens a text to at most limit bytes, at a character's border. The
// result always is valid UTF-8, which the API demands.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !isBorder(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// isBorder tells whether a character begins at this byte.
func isBorder(b byte) bool { return b&0xC0 != 0x80 }

// maxNotes bounds the texts that are remembered. Beyond it some are told again.
const maxNotes = 256

// notes remembers what was told in this term.
type notes struct {
	mu   sync.Mutex
	told map[[2]string]bool
}

// isNews reports whether the text was not told yet, and remembers it. Callers
// leave out the pods that are not counted: they come and go with every rollout.
func (n *notes) isNews(reason, text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{reason, text}
	if n.told[key] {
		return false
	}
	if n.told == nil || len(n.told) >= maxNotes {
		n.told = map[[2]string]bool{}
	}
	n.told[key] = true
	return true
}
