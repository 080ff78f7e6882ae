package gate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// DefaultTimeout bounds one check. Names that resolve slowly are what takes
// long, and -dr makes their failure no error.
const DefaultTimeout = 30 * time.Second

// Environment is what a check runs with, and nothing else. A configuration may
// read these names only, so a pod's values differ but never their presence.
var Environment = map[string]string{
	"POD_IP":        "127.0.0.1",
	"POD_NAME":      "gate",
	"POD_NAMESPACE": "gate",
	"POD_UID":       "00000000-0000-0000-0000-000000000000",
}

// ErrSuperseded says that a newer request took this one's place in the queue.
var ErrSuperseded = errors.New("a newer output is checked instead")

// Outcome is what is known of an output.
type Outcome string

const (
	// Valid: HAProxy ended with exit code 0.
	Valid Outcome = "valid"
	// Refused: HAProxy ended with another code.
	Refused Outcome = "refused"
	// Unknown: HAProxy gave no answer. It says nothing about the output.
	Unknown Outcome = "unknown"
)

// Verdict is the answer to one check.
type Verdict struct {
	Outcome Outcome
	// Message is HAProxy's own, shortened, or why there is none.
	Message string
	// Line is the line of the configuration that the message names first, or 0.
	Line int
	// Version is the version of the binary that answered.
	Version string
	// Cached says that the binary had answered for the same output before.
	Cached bool
	Took   time.Duration
}

// Config is what a Gate needs.
type Config struct {
	// Binary is HAProxy's path, or a name to be found in PATH.
	Binary string
	// Timeout is DefaultTimeout when zero.
	Timeout time.Duration
	// Dir is where private folders are made; empty means the system's.
	Dir string
}

// Gate checks outputs. It is safe for concurrent use.
type Gate struct {
	config Config
	// turn holds one token: whoever has it runs HAProxy.
	turn chan struct{}

	mu sync.Mutex
	// waiting is closed when a newer request takes the place of the queued one.
	waiting chan struct{}
	cached  map[key]Verdict
}

// key names an output and the binary that judged it. The digest is framed and
// complete, since the content checksum is short and has no separators.
type key struct {
	content [sha256.Size]byte
	version string
}

// New makes a Gate. The binary is looked for at each check, so that a missing
// one is an unknown verdict and not the end of the process.
func New(config Config) *Gate {
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	return &Gate{config: config, turn: make(chan struct{}, 1)}
}

// Check judges an output, or remembers that it did. The error is ErrSuperseded
// or that of ctx; whatever else goes wrong is an Unknown verdict.
func (g *Gate) Check(ctx context.Context, output *checkpoint.Output) (Verdict, error) {
	release, err := g.acquire(ctx)
	if err != nil {
		return Verdict{}, err
	}
	defer release()
	started := time.Now()
	verdict := g.check(ctx, output)
	verdict.Took = time.Since(started)
	if err := ctx.Err(); err != nil {
		return Verdict{}, err
	}
	klog.FromContext(ctx).V(2).Info("Checked output", "plan", output.Plan.ID, "outcome", verdict.Outcome,
		"cached", verdict.Cached, "took", verdict.Took, "haproxy", verdict.Version)
	return verdict, nil
}

// acquire waits for the turn. There is one place in the queue, and the newest
// request has it.
func (g *Gate) acquire(ctx context.Context) (release func(), err error) {
	superseded := make(chan struct{})
	g.mu.Lock()
	if g.waiting != nil {
		close(g.waiting)
	}
	g.waiting = superseded
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.waiting == superseded {
			g.waiting = nil
		}
	}()
	select {
	case <-superseded:
		return nil, ErrSuperseded
	case <-ctx.Done():
		return nil, ctx.Err()
	case g.turn <- struct{}{}:
		return func() { <-g.turn }, nil
	}
}

func (g *Gate) check(ctx context.Context, output *checkpoint.Output) Verdict {
	ctx, cancel := context.WithTimeoutCause(ctx, g.config.Timeout, errTimeout)
	defer cancel()
	version, err := g.version(ctx)
	if err != nil {
		return Verdict{Outcome: Unknown, Message: err.Error()}
	}
	k := key{content: fingerprint(output), version: version}
	if found, ok := g.cached[k]; ok {
		found.Cached = true
		return found
	}
	verdict := g.run(ctx, output)
	verdict.Version = version
	if verdict.Outcome != Unknown {
		// The last answer alone: the next render is either the same or new.
		g.cached = map[key]Verdict{k: verdict}
	}
	return verdict
}

var errTimeout = errors.New("the check took too long")

// fingerprint covers every byte that HAProxy can see, each length-prefixed.
func fingerprint(output *checkpoint.Output) [sha256.Size]byte {
	h := sha256.New()
	add := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		// A hash takes every byte.
		_, _ = h.Write(size[:])
		_, _ = h.Write(b)
	}
	add(output.Configuration)
	for _, a := range output.Artifacts {
		add([]byte(a.RuntimePath))
		add(a.Content)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// String tells a verdict in one line.
func (v Verdict) String() string {
	if v.Message == "" {
		return string(v.Outcome)
	}
	return fmt.Sprintf("%s: %s", v.Outcome, v.Message)
}
