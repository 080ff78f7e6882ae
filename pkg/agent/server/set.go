package server

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

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

	// plan is the blob, kept in a file of its own.
	plan []byte
}

// planRef names a plan; two plans of one ID differ in the proof.
type planRef struct {
	ID    string `json:"id"`
	Proof string `json:"proof"`
}

func (s *set) ref() planRef { return planRef{ID: s.PlanID, Proof: s.PlanProof} }

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

// newSetID is random: a set's identifier doubles as the nonce by which a worker
// proves what it was loaded from.
func newSetID() (string, error) {
	raw := make([]byte, setIDBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("drawing a nonce: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

func isSetID(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == setIDBytes
}

// nonceOf is the description a worker of this set reports.
func nonceOf(id string) string { return "holdfast-" + id }

// nonceConfig is the second configuration file. The worker's socket is declared
// here so that no template can forget it.
func nonceConfig(l layout, id string) string {
	return fmt.Sprintf(`# Written by holdfast-agent for this set. No part of any output.
global
    description %s
    stats socket %s mode 600 level admin expose-fd listeners
`, nonceOf(id), l.workerSocket())
}

// maxSetMetaBytes bounds what is read back of set.json.
const maxSetMetaBytes = 2 * api.MaxManifestBytes

// loadSet reads a set's description and plan back. It does not hash the files.
func loadSet(l layout, id string) (*set, error) {
	raw, err := readBounded(filepath.Join(l.set(id), setMeta), maxSetMetaBytes)
	if err != nil {
		return nil, fmt.Errorf("reading set %s: %w", id, err)
	}
	loaded, err := decodeSet(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding set %s: %w", id, err)
	}
	if loaded.ID != id {
		return nil, fmt.Errorf("set %s calls itself %q", id, loaded.ID)
	}
	if !loaded.isOutput() {
		return loaded, nil
	}
	if loaded.plan, err = readBounded(filepath.Join(l.set(id), setPlan), api.MaxPlanBytes); err != nil {
		return nil, fmt.Errorf("reading plan of set %s: %w", id, err)
	}
	if proof := api.PlanProof(loaded.plan); proof != loaded.PlanProof {
		return nil, fmt.Errorf("plan of set %s has proof %s, want %s", id, proof, loaded.PlanProof)
	}
	return loaded, nil
}

func decodeSet(raw []byte) (*set, error) {
	var decoded set
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, err
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
