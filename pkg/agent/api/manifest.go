package api

import "github.com/holdfast-project/holdfast/pkg/plan"

// Token orders applies: the term's epoch, then the render within the term.
type Token struct {
	LeaderEpoch uint64 `json:"leader_epoch"`
	RenderSeq   uint64 `json:"render_seq"`
}

// IsZero reports that nothing was ever applied.
func (t Token) IsZero() bool { return t == Token{} }

// Before reports that t was issued before other.
func (t Token) Before(other Token) bool {
	if t.LeaderEpoch != other.LeaderEpoch {
		return t.LeaderEpoch < other.LeaderEpoch
	}
	return t.RenderSeq < other.RenderSeq
}

// Kinds of a file, as a plan declares them.
const (
	KindConfig  = "config"
	KindMap     = "map"
	KindCert    = "cert"
	KindCA      = "ca"
	KindCRTList = "crtlist"
	KindGeneral = "general"
)

// ConfigPath is where the configuration itself sits among a plan's files.
const ConfigPath = "haproxy.cfg"

// File declares one file of a plan. The path is relative to the set's folder.
type File struct {
	Path           string `json:"path"`
	Digest         string `json:"digest"`
	Proof          string `json:"proof"`
	Size           int64  `json:"size"`
	Kind           string `json:"kind"`
	ReloadOnChange bool   `json:"reload_on_change"`
	// Patch, when set, says that the file's part is no whole content. The other
	// members describe the whole file always.
	Patch *Patch `json:"patch,omitempty"`
}

// Patch makes a file from the one of the same path that the pod holds: its part
// takes the place of Length bytes from Offset on. An agent that does not hold
// that base asks for the file as one that is missing; it is sent whole then, and
// the manifest without the patch.
type Patch struct {
	BaseDigest string `json:"base_digest"`
	BaseSize   int64  `json:"base_size"`
	Offset     int64  `json:"offset"`
	Length     int64  `json:"length"`
}

// PartSize is the size of the part that makes a file of the given size.
func (p *Patch) PartSize(size int64) int64 { return size - (p.BaseSize - p.Length) }

// Mode is what an apply asks for.
type Mode string

const (
	// ModeAuto does nothing when the pod already has exactly this output, changes
	// the worker in place where Manifest.InPlaceOps allows it and that turns out
	// to be enough, and reloads otherwise.
	ModeAuto Mode = "auto"
	// ModeReload reloads even then.
	ModeReload Mode = "reload"
	// ModeRevertLKG leaves the named plan, which the pod carries and no worker
	// runs, for the last known good set. It carries no files.
	ModeRevertLKG Mode = "revert_lkg"
)

// Manifest declares one output completely. Files whose bytes the agent already
// holds need not be sent with it.
type Manifest struct {
	IdentityVersion   int    `json:"identity_version"`
	PlanID            string `json:"plan_id"`
	PlanProof         string `json:"plan_proof"`
	PlanSchemaVersion int    `json:"plan_schema_version"`
	Token             Token  `json:"token"`

	// The pod must be exactly here, or the apply is a conflict. All three are
	// compared always: an empty plan and a zero token expect a pod without one.
	ExpectedPrevPlanID    string `json:"expected_prev_plan_id"`
	ExpectedPrevPlanProof string `json:"expected_prev_plan_proof"`
	ExpectedPrevToken     Token  `json:"expected_prev_token"`
	// ExpectedPhase, when set, must be the pod's phase. Recovery sets it to
	// PhaseBootstrap: a pod that lost its state expects the same plan and token
	// as one that never had any.
	ExpectedPhase Phase `json:"expected_phase,omitempty"`

	Files []File `json:"files"`
	Mode  Mode   `json:"mode"`

	// InPlaceOps says that Ops, perhaps none, bring a worker of the expected
	// previous plan to this one. Whatever comes in between, the agent reloads.
	InPlaceOps bool             `json:"in_place_ops,omitempty"`
	Ops        []plan.Operation `json:"ops,omitempty"`
}

// Announcement is the body of RouteEpoch: a term tells its epoch before it acts.
type Announcement struct {
	LeaderEpoch uint64 `json:"leader_epoch"`
}

// Floor answers an announcement: no apply of an earlier epoch is accepted now.
type Floor struct {
	Floor uint64 `json:"floor"`
}

// StoredPlan answers RoutePlan: the blob is that of the applied plan and is kept.
type StoredPlan struct {
	PlanID string `json:"plan_id"`
	Proof  string `json:"proof"`
}

// MovedPlan is the 409 of RoutePlan: the pod has another plan, and the blob was
// dropped.
type MovedPlan struct {
	AppliedPlanID    string `json:"applied_plan_id"`
	AppliedPlanProof string `json:"applied_plan_proof"`
}
