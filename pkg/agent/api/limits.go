package api

// Limits of the contract. Each bounds what one request can make the other side
// hold; reaching one is a refusal that names it.
const (
	// MaxApplyBytes bounds the body of one apply.
	MaxApplyBytes = 64 << 20
	// MaxManifestBytes bounds the manifest part: MaxFiles entries with paths of
	// MaxPathBytes fit twice.
	MaxManifestBytes = 4 << 20
	// MaxPlanBytes bounds the plan blob.
	MaxPlanBytes = 8 << 20
	// MaxFiles bounds the files of one plan.
	MaxFiles = 4096
	// MaxPatchBytes bounds the parts of all patches of one apply, which an agent
	// holds in memory until it has the base at hand.
	MaxPatchBytes = 1 << 20
	// MaxPathBytes bounds one path.
	MaxPathBytes = 255
	// MaxEpochBytes bounds the body of an announcement.
	MaxEpochBytes = 4 << 10
	// MaxAnswerBytes bounds what a client reads of one answer: a state with its
	// plan in base64 and MaxFiles entries.
	MaxAnswerBytes = 24 << 20
	// MaxMessageBytes bounds the text of an error, HAProxy's own included.
	MaxMessageBytes = 8 << 10
	// MaxEpochJump is how far an epoch may lie above everything this pod has
	// seen. A damaged counter would otherwise lock out every later leader.
	MaxEpochJump = 1_000_000
)
