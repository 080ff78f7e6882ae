package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

const journalVersion = 1

// maxJournalBytes bounds what is read back; the largest member is an error text.
const maxJournalBytes = 1 << 20

// maxGood is how many sets that a worker proved are kept. Two, so that a plan
// which stops working after a restart of HAProxy can still be left.
const maxGood = 2

// journal is what the agent must remember over its own restart.
type journal struct {
	Version     int    `json:"version"`
	TemplateUID string `json:"template_uid,omitempty"`

	// Fence is the highest token this pod heard of, refused applies and
	// announcements included; FencePlan is the plan that came with it. Both
	// are apart from AppliedToken, so that a pod which never took an output
	// stays a bootstrap pod.
	Fence        api.Token `json:"fence"`
	FencePlan    planRef   `json:"fence_plan"`
	AppliedToken api.Token `json:"applied_token"`
	Generation   uint64    `json:"generation"`

	// Current is the committed set, Good the sets a worker proved, newest first.
	Current string    `json:"current"`
	Good    []goodSet `json:"good,omitempty"`
	// Pending is written before the switch to a set and cleared after its
	// outcome. Whoever finds it after a crash has to find out what happened.
	Pending *pending `json:"pending,omitempty"`
	// Scheduled is a set that was taken and waits for its reload. It is not
	// current: HAProxy's container, should it restart before, starts with the
	// set that is proven to run.
	Scheduled *scheduled `json:"scheduled,omitempty"`
	// Undone is set while a switch was taken back and nobody has seen since
	// what came of HAProxy: it is the worker from before the switch.
	Undone *workerID `json:"undone,omitempty"`
	// Disowned says that the set named here may not be what the pod has.
	Disowned bool `json:"disowned,omitempty"`

	LastApply *api.Result `json:"last_apply,omitempty"`
	// LastManifest identifies the manifest of LastApply, to know a repeat.
	LastManifest string `json:"last_manifest,omitempty"`
}

// pending is an apply on its way.
type pending struct {
	Set      string    `json:"set"`
	Token    api.Token `json:"token"`
	Manifest string    `json:"manifest"`
	// Previous is what the symlink "current" held before the switch.
	Previous string `json:"previous"`
	// Worker is the one that was seen last before the switch.
	Worker workerID `json:"worker"`
}

// workerID tells one worker from another.
type workerID struct {
	PID   int64 `json:"pid"`
	Start int64 `json:"start"`
}

// scheduled is an apply whose reload is put off.
type scheduled struct {
	Set      string    `json:"set"`
	Plan     planRef   `json:"plan"`
	Token    api.Token `json:"token"`
	Manifest string    `json:"manifest"`
	// Due is kept over newer applies, which only replace what is loaded then.
	Due time.Time `json:"due"`
}

// goodSet is a set that a worker was seen to run.
type goodSet struct {
	Set  string  `json:"set"`
	Plan planRef `json:"plan"`
}

func decodeJournal(raw []byte) (*journal, error) {
	var j journal
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&j); err != nil {
		return nil, err
	}
	if j.Version != journalVersion {
		return nil, fmt.Errorf("journal version %d, want %d", j.Version, journalVersion)
	}
	ids := []string{j.Current}
	for _, good := range j.Good {
		ids = append(ids, good.Set)
	}
	if j.Pending != nil {
		ids = append(ids, j.Pending.Set)
	}
	if j.Scheduled != nil {
		ids = append(ids, j.Scheduled.Set)
	}
	for _, id := range ids {
		if !isSetID(id) {
			return nil, fmt.Errorf("%q is not the name of a set", id)
		}
	}
	return &j, nil
}

// loadJournal reads the journal.
func loadJournal(l layout) (*journal, error) {
	raw, err := readBounded(l.journal(), maxJournalBytes)
	if err != nil {
		return nil, fmt.Errorf("reading journal: %w", err)
	}
	j, err := decodeJournal(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding journal: %w", err)
	}
	return j, nil
}

func saveJournal(d *disk, l layout, j *journal) error {
	j.Version = journalVersion
	raw, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding journal: %w", err)
	}
	if err := d.replace(l.journal(), append(raw, '\n')); err != nil {
		return fmt.Errorf("writing journal: %w", err)
	}
	return nil
}

// addGood puts a proven set first.
func (j *journal) addGood(s *set) {
	good := []goodSet{{Set: s.ID, Plan: s.ref()}}
	for _, other := range j.Good {
		if other.Set != s.ID && len(good) < maxGood {
			good = append(good, other)
		}
	}
	j.Good = good
}

// slots are the folders of every set the journal names.
func (j *journal) slots() map[string]bool {
	named := map[string]bool{slotOf(j.Current): true}
	for _, good := range j.Good {
		named[slotOf(good.Set)] = true
	}
	if j.Pending != nil {
		named[slotOf(j.Pending.Set)] = true
	}
	if j.Scheduled != nil {
		named[slotOf(j.Scheduled.Set)] = true
	}
	return named
}

// token is that of the output the pod has taken, loaded yet or not.
func (j *journal) token() api.Token {
	if j.Scheduled != nil {
		return j.Scheduled.Token
	}
	return j.AppliedToken
}
