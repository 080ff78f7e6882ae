package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Decision is one step of a schedule.
type Decision struct {
	// Do is "release", "wait" or the name of a fault.
	Do string `json:"do"`
	// What is the key of the item to release, or the fault's subject.
	What string `json:"what,omitempty"`
	Fate string `json:"fate,omitempty"`
	// For is how long to wait, at most: anything new on the network ends it.
	For time.Duration `json:"for,omitempty"`
}

func (d Decision) String() string {
	text := d.Do
	if d.What != "" {
		text += " " + d.What
	}
	if d.Fate != "" && d.Fate != fateDeliver {
		text += " (" + d.Fate + ")"
	}
	if d.For > 0 {
		text += " " + d.For.String()
	}
	return text
}

// Trace is what replays a run.
type Trace struct {
	Seed       uint64     `json:"seed"`
	Violations []string   `json:"violations,omitempty"`
	Decisions  []Decision `json:"decisions"`
}

// errDiverged says that a replay met another world than the recording.
var errDiverged = errors.New("replay diverged")

// Write stores the trace in a folder, which is made if it is missing, and the
// history beside it.
func (r *Result) Write(dir string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	raw, err := json.MarshalIndent(r.Trace, "", " ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, fmt.Sprintf("seed-%d.json", r.Trace.Seed))
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return "", err
	}
	history := strings.TrimSuffix(path, ".json") + ".txt"
	return path, os.WriteFile(history, []byte(strings.Join(r.History, "\n")+"\n"), 0o644)
}

// ReadTrace loads a stored trace.
func ReadTrace(path string) (*Trace, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var t Trace
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return &t, nil
}

// history is what happened, for people.
type history struct {
	start time.Time
	lines []string
}

func (h *history) add(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf("%9.3fs  ", time.Since(h.start).Seconds())+fmt.Sprintf(format, args...))
}
