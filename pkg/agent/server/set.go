package server

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// set describes one set of files: the output it holds and what each file must
// be. It is stored beside the files, so set and description come and go as one.
type set struct {
	ID                string     `json:"id"`
	Bootstrap         bool       `json:"bootstrap,omitempty"`
	PlanID            string     `json:"plan_id,omitempty"`
	PlanProof         string     `json:"plan_proof,omitempty"`
	PlanSchemaVersion int        `json:"plan_schema_version,omitempty"`
	Files             []api.File `json:"files"`
	// Nonce is the set whose nonce this one took over, when it became current
	// beneath a worker that had not to be replaced.
	Nonce string `json:"nonce,omitempty"`

	// Moved is the worker that was brought to this set without a reload.
	Moved *movedWorker `json:"moved,omitempty"`

	// plan is the blob, kept in a file of its own.
	plan []byte
}

// planRef names a plan; two plans of one ID differ in the proof.
type planRef struct {
	ID    string `json:"id"`
	Proof string `json:"proof"`
}

func (s *set) ref() planRef { return planRef{ID: s.PlanID, Proof: s.PlanProof} }

func (s *set) encode() ([]byte, error) {
	meta, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding set: %w", err)
	}
	return meta, nil
}

// isOutput reports that the set came from a controller.
func (s *set) isOutput() bool { return s.PlanID != "" }

// sameFiles reports that both lists declare the same files, in any order.
func (s *set) sameFiles(files []api.File) bool {
	if len(s.Files) != len(files) {
		return false
	}
	mine := s.byPath()
	for _, f := range files {
		if mine[f.Path] != f {
			return false
		}
	}
	return true
}

func (s *set) byPath() map[string]api.File {
	files := make(map[string]api.File, len(s.Files))
	for _, f := range s.Files {
		files[f.Path] = f
	}
	return files
}

const setIDBytes = 16

// newSetID names a set by its slot and a random part. The whole doubles as the
// nonce by which a worker proves what it was loaded from, so a slot that was
// filled again is another set.
func newSetID(slot string) (string, error) {
	raw := make([]byte, setIDBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("drawing a nonce: %w", err)
	}
	return slot + "-" + hex.EncodeToString(raw), nil
}

// slotOf is the folder of a set.
func slotOf(id string) string {
	slot, _, _ := strings.Cut(id, "-")
	return slot
}

func isSetID(id string) bool {
	slot, random, _ := strings.Cut(id, "-")
	raw, err := hex.DecodeString(random)
	return err == nil && len(raw) == setIDBytes && isSlot(slot)
}

func isSlot(slot string) bool {
	number, ok := strings.CutPrefix(slot, "s")
	return ok && len(number) == 1 && number[0] >= '0' && number[0] <= '9'
}

// nonceOf is the description a worker of this set reports.
func nonceOf(id string) string { return "holdfast-" + id }

// nonce is what a worker of this set carries.
func (s *set) nonce() string {
	if s.Nonce != "" {
		return nonceOf(s.Nonce)
	}
	return nonceOf(s.ID)
}

// inherit takes over another set's nonce, and what is known of its worker.
func (s *set) inherit(from *set, worker observation) {
	if from.Moved.is(worker) {
		s.Moved = from.Moved
	}
	if s.Nonce = from.Nonce; s.Nonce == "" {
		s.Nonce = from.ID
	}
}

// nonceConfig is the second configuration file. The worker's socket is declared
// here so that no template can forget it.
func nonceConfig(l layout, nonce string) string {
	return fmt.Sprintf(`# Written by holdfast-agent for this set. No part of any output.
global
    description %s
    stats socket %s mode 600 level admin expose-fd listeners
`, nonce, l.workerSocket())
}

// maxSetMetaBytes bounds what is read back of set.json.
const maxSetMetaBytes = 2 * api.MaxManifestBytes

// loadSet reads a set's description and plan back. It does not hash the files.
// A set whose plan is lost is still that set: its proof says which plan it was,
// and the blob can be sent again.
func loadSet(l layout, id string) (*set, error) {
	loaded, err := describeSlot(l, slotOf(id))
	if err != nil {
		return nil, err
	}
	if loaded.ID != id {
		return nil, fmt.Errorf("slot of set %s holds set %q", id, loaded.ID)
	}
	if !loaded.isOutput() {
		return loaded, nil
	}
	if blob, err := readBounded(filepath.Join(l.set(id), setPlan), api.MaxPlanBytes); err == nil && api.PlanProof(blob) == loaded.PlanProof {
		loaded.plan = blob
	}
	return loaded, nil
}

// describeSlot reads what a slot says it holds.
func describeSlot(l layout, slot string) (*set, error) {
	raw, err := readBounded(filepath.Join(l.slot(slot), setMeta), maxSetMetaBytes)
	if err != nil {
		return nil, fmt.Errorf("reading slot %s: %w", slot, err)
	}
	described, err := decodeSet(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding slot %s: %w", slot, err)
	}
	return described, nil
}

func decodeSet(raw []byte) (*set, error) {
	var decoded set
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, err
	}
	if !isSetID(decoded.ID) {
		return nil, fmt.Errorf("%q is not the name of a set", decoded.ID)
	}
	if decoded.Nonce != "" && !isSetID(decoded.Nonce) {
		return nil, fmt.Errorf("nonce %q is not the name of a set", decoded.Nonce)
	}
	for _, f := range decoded.Files {
		if err := api.ValidatePath(f.Path); err != nil {
			return nil, err
		}
	}
	if !decoded.Bootstrap && (!api.IsDigest(decoded.PlanID) || !api.IsProof(decoded.PlanProof)) {
		return nil, fmt.Errorf("neither a plan nor the bootstrap set")
	}
	return &decoded, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s exceeds %d bytes", path, limit)
	}
	return content, nil
}
