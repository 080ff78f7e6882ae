package recovery

import (
	"context"
	"sync"
)

// flight counts what is under way, so that whoever ends recovery can wait for
// it without breaking it off: an apply that is cut off may still happen.
type flight struct {
	mu     sync.Mutex
	closed bool
	count  int
	// empty is closed when the last one ends; nil while nobody waits.
	empty chan struct{}
	// ground ends what leads up to a start.
	ground context.CancelFunc
}

// prepare gives the context of what leads up to starts: reading and checking.
// It ends with the flight; what was started goes on.
func (f *flight) prepare(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ground = cancel
	if f.closed {
		cancel()
	}
	return ctx, cancel
}

// enter is false when nothing may begin any more.
func (f *flight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.count++
	return true
}

func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	if f.count == 0 && f.empty != nil {
		close(f.empty)
		f.empty = nil
	}
}

// land lets nothing begin any more and waits for what is under way.
func (f *flight) land(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	if f.ground != nil {
		f.ground()
	}
	if f.count == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	empty := f.empty
	f.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
