package deploy

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// ErrTooLarge says that no agent would take the output.
var ErrTooLarge = errors.New("the output is too large for an agent")

// Candidate is an output made ready for agents. Its bytes are shared by all
// pods and only read.
type Candidate struct {
	Output *checkpoint.Output
	// Sequence is the order of renders within the term, from 1.
	Sequence uint64
	// Checksum is the output's content checksum.
	Checksum string
	// Redact takes secrets out of a text that quotes the output.
	Redact func(string) string

	// instead is the recalled output that this one replaces, nil for most.
	instead *Candidate

	blob  []byte
	proof string
	files []api.File
	parts map[string][]byte
}

// Prepare encodes an output and checks it against the agents' contract, so that
// an output no agent can take is refused before it becomes an intent.
func Prepare(output *checkpoint.Output, sequence uint64, redact func(string) string) (*Candidate, error) {
	// The blob is the canonical JSON itself: its proof then depends on the plan
	// alone, and another build of this program does not reload a fleet.
	blob, err := output.Plan.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encoding the plan: %w", err)
	}
	if len(blob) > api.MaxPlanBytes {
		return nil, fmt.Errorf("%w: its plan has %d bytes, the limit is %d", ErrTooLarge, len(blob), api.MaxPlanBytes)
	}
	c := &Candidate{
		Output: output, Sequence: sequence, Checksum: output.Checksum(), Redact: redact,
		blob: blob, proof: api.PlanProof(blob), parts: make(map[string][]byte, len(output.Plan.Files)),
	}
	c.parts[api.ConfigPath] = output.Configuration
	for _, a := range output.Artifacts {
		c.parts[a.RuntimePath] = a.Content
	}
	for _, f := range output.Plan.Files {
		spec := api.FileSpec{Path: f.Path, Kind: f.Kind, ReloadOnChange: f.ReloadOnChange}
		declared := api.Declare(spec, c.parts[f.Path])
		if declared.Digest != f.Digest || declared.Size != f.Size {
			return nil, fmt.Errorf("the plan declares other content for %s than the output has", f.Path)
		}
		c.files = append(c.files, declared)
	}
	// Any state and token will do: what is checked is the output's own part.
	m := c.request(&api.State{}, api.Token{LeaderEpoch: 1}).Manifest
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return c, nil
}

// request is the apply that brings a pod from where it is to the output.
func (c *Candidate) request(at *api.State, token api.Token) client.ApplyRequest {
	return client.ApplyRequest{
		Manifest: api.Manifest{
			IdentityVersion:       api.IdentityVersion,
			PlanID:                c.Output.Plan.ID,
			PlanProof:             c.proof,
			PlanSchemaVersion:     api.PlanSchemaVersion,
			Token:                 token,
			ExpectedPrevPlanID:    at.AppliedPlanID,
			ExpectedPrevPlanProof: at.AppliedPlanProof,
			ExpectedPrevToken:     at.AppliedToken,
			Files:                 c.files,
			Mode:                  api.ModeAuto,
		},
		Plan:  c.blob,
		Parts: c.parts,
		Held:  at.Files,
		// Large files that changed a little are sent as patches where they are taken.
		Features: at.Features,
		Before:   at,
	}
}

// runsOn tells whether a verified state is exactly this output, running.
func (c *Candidate) runsOn(s *api.State) bool {
	id := c.Output.Plan.ID
	if !s.Verified || s.Phase != api.PhaseConfigured || s.WorkerStatus != api.WorkerOwned || !s.HAProxy.HasWorker() ||
		s.InvariantViolation != "" ||
		s.AppliedPlanID != id || s.AppliedPlanProof != c.proof ||
		!atPlan(s, id, c.proof) ||
		len(s.Files) != len(c.files) {
		return false
	}
	for _, f := range c.files {
		if s.Files[f.Path] != f.State() {
			return false
		}
	}
	return true
}

// modeOf is how the pod that runs the output came to do so, as far as it tells.
func (c *Candidate) modeOf(s *api.State) api.Outcome {
	if last := s.LastApply; last != nil && last.OK && last.PlanID == c.Output.Plan.ID &&
		(last.Mode == api.OutcomeReload || last.Mode == api.OutcomeRuntime) &&
		last.AppliedToken == s.AppliedToken && last.HAProxy == s.HAProxy {
		return last.Mode
	}
	return api.OutcomeNoop
}

// pendingOn tells when the pod, which took the output, will load it.
func (c *Candidate) pendingOn(s *api.State) (at time.Time, pending bool) {
	if s.ReloadPendingAt == nil || s.AppliedPlanID != c.Output.Plan.ID || s.AppliedPlanProof != c.proof {
		return time.Time{}, false
	}
	return *s.ReloadPendingAt, true
}

// refusedBy tells why the pod could not load the output when it came to it.
func (c *Candidate) refusedBy(s *api.State) (detail api.ErrorDetail, refused bool) {
	if last := s.LastApply; last == nil || last.OK || last.PlanID != c.Output.Plan.ID || last.Error == nil {
		return api.ErrorDetail{}, false
	}
	return *s.LastApply.Error, true
}
