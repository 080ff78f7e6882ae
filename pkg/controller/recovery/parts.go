package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

// Pod is one discovered proxy pod.
type Pod struct {
	Name, UID string
	// Address is host:port of the agent.
	Address string
	// Incarnation changes when a container of the pod was started anew.
	Incarnation string
}

// Excluded is a pod that the selector matches and that is not counted.
type Excluded struct {
	Name string
	// Why is a short text without values that change by themselves.
	Why string
}

// Term is the right to act. The election's term is one.
type Term interface {
	// Intent is the recorded intent, after a check of both Leases.
	Intent(ctx context.Context) (fencing.Intent, error)
	// CheckIntent checks both Leases and that the intent names the output.
	CheckIntent(ctx context.Context, planID, checksum string) error
	// Activate marks recovery as in force on the retained-state Lease, or with
	// nil as over.
	Activate(ctx context.Context, active *fencing.Active) error
	// Reclaim lifts the epoch above one that a pod has seen, if the term holds.
	Reclaim(ctx context.Context, floor uint64) error
	Epoch() uint64
}

// Fleet is what is discovered now.
type Fleet interface {
	Pods() (discovered []Pod, excluded []Excluded)
}

// Agents are the agents of the fleet.
type Agents interface {
	// State is the pod's verified state, without the plan's blob.
	State(ctx context.Context, pod Pod) (*api.State, error)
	// Start brings one bootstrap pod to the output, calling the guard immediately
	// before each apply. A guard's error comes back wrapped. Otherwise the error
	// is a RejectedError, an OutrankedError, an UnresolvedError, or any other
	// after which the pod is as it was.
	Start(ctx context.Context, order Order) error
	// Announce tells the epoch to every discovered pod.
	Announce(ctx context.Context, epoch uint64) (floors []uint64)
}

// Order is one pod to start.
type Order struct {
	Pod    Pod
	Output *checkpoint.Output
	Guard  func(ctx context.Context) error
}

// RejectedError says that HAProxy on the pod refused the output. The pod still
// is a bootstrap pod.
type RejectedError struct {
	// Message is HAProxy's own.
	Message string
}

func (e *RejectedError) Error() string { return "rejected: " + e.Message }

// OutrankedError says that the pod has heard of a later epoch.
type OutrankedError struct{ Floor uint64 }

func (e *OutrankedError) Error() string {
	return fmt.Sprintf("the pod has heard of epoch %d", e.Floor)
}

// UnresolvedError says that nobody knows whether the pod took the output.
type UnresolvedError struct{ Err error }

func (e *UnresolvedError) Error() string { return fmt.Sprintf("no answer: %v", e.Err) }
func (e *UnresolvedError) Unwrap() error { return e.Err }

// Store reads what is stored, live. Nothing may come from a cache.
type Store interface {
	// Ordinary is the template's ordinary output, which holds the pointers; nil
	// if it does not exist.
	Ordinary(ctx context.Context) (*v1alpha1.HAProxyCfg, error)
	// Checkpoint is one checkpoint; nil if it does not exist.
	Checkpoint(ctx context.Context, name string) (*v1alpha1.HAProxyCfg, error)
	// Children are all stored files of the namespace, by one list for each kind,
	// Secrets with their bytes.
	Children(ctx context.Context) ([]*checkpoint.StoredChild, error)
}

// Gate runs HAProxy's current binary over an output.
type Gate interface {
	// Check returns an error only when the request was given up.
	Check(ctx context.Context, output *checkpoint.Output) (Verdict, error)
}

// Outcome is what a gate knows of an output.
type Outcome string

const (
	// Valid: the binary accepts it.
	Valid Outcome = "valid"
	// Refused: the binary refuses it.
	Refused Outcome = "refused"
	// Unknown: the binary gave no answer.
	Unknown Outcome = "unknown"
)

// Verdict is a gate's answer.
type Verdict struct {
	Outcome Outcome
	// Message is HAProxy's own, or why there is no verdict.
	Message string
	// Version is that of the binary.
	Version string
}

// Sink takes what operators should see. Its methods must not block.
type Sink interface {
	// Event is a Warning event on the template.
	Event(reason, note string)
	// Health is what recovery has to say now, empty when nothing.
	Health(text string)
}

// Parts are what a Recovery works with.
type Parts struct {
	Term   Term
	Fleet  Fleet
	Agents Agents
	Store  Store
	Gate   Gate
	Sink   Sink
}

// Defaults of Settings.
const (
	// DefaultRetry is the pause after a result (wire format, section 13).
	DefaultRetry = 5 * time.Second
	// DefaultTimeout bounds one state read, and one call to the API server.
	DefaultTimeout = 10 * time.Second
)

// Settings tune a Recovery. Zero durations take their defaults.
type Settings struct {
	Template checkpoint.Template
	Retry    time.Duration
	Timeout  time.Duration
}

func (s Settings) withDefaults() Settings {
	if s.Retry <= 0 {
		s.Retry = DefaultRetry
	}
	if s.Timeout <= 0 {
		s.Timeout = DefaultTimeout
	}
	return s
}
