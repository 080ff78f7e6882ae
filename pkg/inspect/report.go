package inspect

import (
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Reasons of notices and of what only an offline reader meets. The API never
// serves them, since it sees whole objects.
const (
	// ReasonNotGiven: the input lacks what the check needs. The cluster may have it.
	ReasonNotGiven checkpoint.Reason = "NotGiven"
	// ReasonCheckpointMissing: a pointer names a checkpoint that does not exist.
	ReasonCheckpointMissing checkpoint.Reason = "CheckpointMissing"
	// ReasonNoCheckpoint: nothing was ever retained for a template.
	ReasonNoCheckpoint checkpoint.Reason = "NoCheckpoint"
	// ReasonTemplateMissing: the template of a checkpoint does not exist.
	ReasonTemplateMissing checkpoint.Reason = "TemplateMissing"
	// ReasonNothingFound: there is nothing to judge at all.
	ReasonNothingFound checkpoint.Reason = "NothingFound"
	// ReasonExportAltered: a folder that export wrote is not what its manifest says.
	ReasonExportAltered checkpoint.Reason = "ExportAltered"
	// ReasonUnsupportedKind: an object of our group that this release cannot read.
	ReasonUnsupportedKind checkpoint.Reason = "UnsupportedKind"
)

// Outcome sums a report up. Its values are the exit codes of the plugin.
type Outcome int

const (
	// Sound: every promoted checkpoint is verified and acknowledged.
	Sound Outcome = iota
	// Damaged: something stored is not what it must be.
	Damaged
	// Unjudged: nothing is known to be damaged, but something could not be judged.
	Unjudged
)

// Checkpoint is one stored checkpoint as judged.
type Checkpoint struct {
	View    *views.RetainedCheckpoint
	Verdict checkpoint.Verdict
	// Promoted tells whether a pointer names it, Terminating that it is being deleted.
	Promoted, Terminating bool
}

// Notice is a finding on the input as a whole, not on one checkpoint.
type Notice struct {
	Namespace string
	checkpoint.Finding
}

// Report is everything that was found out, sorted by namespace and name.
type Report struct {
	Checkpoints []Checkpoint
	Intents     []*views.DeploymentIntent
	Notices     []Notice
}

// Outcome tells how much can be relied on. Damage counts wherever it is; what
// cannot be judged counts only where a promoted checkpoint depends on it, since
// others may be in the middle of their publication.
func (r *Report) Outcome() Outcome {
	worst := Sound
	for i := range r.Checkpoints {
		worst = worse(worst, r.Checkpoints[i].outcome())
	}
	for i := range r.Notices {
		switch r.Notices[i].State {
		case checkpoint.Damaged:
			worst = worse(worst, Damaged)
		case checkpoint.Unknown:
			worst = worse(worst, Unjudged)
		}
	}
	return worst
}

func (c *Checkpoint) outcome() Outcome {
	switch {
	case c.Verdict.State == checkpoint.Damaged && !c.Promoted && c.Terminating:
		// Its collection goes on as it should.
		return Sound
	case c.Verdict.State == checkpoint.Damaged:
		return Damaged
	case !c.Promoted:
		return Sound
	case c.Verdict.State == checkpoint.Unknown:
		return Unjudged
	}
	return Sound
}

// worse is the worse of two outcomes: damage before what nobody knows.
func worse(a, b Outcome) Outcome {
	if a == Damaged || b == Damaged {
		return Damaged
	}
	return max(a, b)
}
