package supervisor

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
)

// Report is one line from a supervisor to the up that started it.
type Report struct {
	// Seconds since the start.
	Seconds float64 `json:"seconds"`
	// Step names what has begun.
	Step string `json:"step,omitempty"`
	// Done ends the reports; Error says why there is no cluster.
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
	// Forbidden says that this machine does not allow what is needed, so that
	// no log is worth keeping.
	Forbidden bool `json:"forbidden,omitempty"`
}

type reporter struct {
	mu    sync.Mutex
	out   io.WriteCloser
	begin time.Time
}

func newReporter(out io.WriteCloser) *reporter { return &reporter{out: out, begin: time.Now()} }

func (r *reporter) step(text string) {
	klog.InfoS("Began a step", "step", text)
	r.send(Report{Step: text})
}

// finish sends the outcome once; later calls do nothing.
func (r *reporter) finish(err error) {
	last := Report{Done: true}
	if err != nil {
		klog.ErrorS(err, "The cluster ended")
		last.Error = err.Error()
		var forbidden *netns.ForbiddenError
		last.Forbidden = errors.As(err, &forbidden)
	}
	r.send(last)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out != nil {
		_ = r.out.Close()
		r.out = nil
	}
}

func (r *reporter) send(report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out == nil {
		return
	}
	report.Seconds = time.Since(r.begin).Seconds()
	// The reader may be gone; the cluster does not depend on it.
	if err := json.NewEncoder(r.out).Encode(report); errors.Is(err, os.ErrClosed) {
		r.out = nil
	}
}
