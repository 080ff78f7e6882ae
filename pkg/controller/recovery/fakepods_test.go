package recovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// hookedStore lets a test look on and interfere.
type hookedStore struct {
	*ClientStore
	mu         sync.Mutex
	reads      int
	err        error
	onChildren func()
}

func (h *hookedStore) Ordinary(ctx context.Context) (*v1alpha1.HAProxyCfg, error) {
	h.mu.Lock()
	h.reads++
	err := h.err
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return h.ClientStore.Ordinary(ctx)
}

func (h *hookedStore) Children(ctx context.Context) ([]*checkpoint.StoredChild, error) {
	children, err := h.ClientStore.Children(ctx)
	if h.onChildren != nil {
		h.onChildren()
	}
	return children, err
}

func (w *world) Pods() ([]Pod, []Excluded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Pod
	for _, p := range w.pods {
		out = append(out, p.Pod)
	}
	return out, w.excluded
}

func (w *world) State(ctx context.Context, asked Pod) (*api.State, error) {
	w.mu.Lock()
	p := w.pods[asked.UID]
	if p == nil {
		w.mu.Unlock()
		return nil, errors.New("no route to host")
	}
	p.reads++
	err, state := p.err, *p.state
	w.mu.Unlock()
	if errors.Is(err, errSilent) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return &state, nil
}

// errSilent makes a pod hold a request until its time is up.
var errSilent = errors.New("silent")

func (w *world) Start(ctx context.Context, o Order) error {
	w.mu.Lock()
	p := w.pods[o.Pod.UID]
	w.mu.Unlock()
	for {
		if p.atGuard != nil {
			p.atGuard()
		}
		w.with(func() { p.guards++ })
		if err := o.Guard(ctx); err != nil {
			return fmt.Errorf("guard: %w", err)
		}
		if p.beforeApply != nil {
			p.beforeApply()
		}
		select {
		case <-time.After(p.delay):
		case <-ctx.Done():
			return &UnresolvedError{Err: ctx.Err()}
		}
		again, err := w.apply(p, o)
		if !again {
			return err
		}
	}
}

func (w *world) apply(p *pod, o Order) (again bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.conflicts > 0 {
		p.conflicts--
		return true, nil
	}
	if !p.state.IsBootstrap() {
		return false, errors.New("conflict: phase mismatch")
	}
	p.applies++
	p.received = o.Output
	if p.end != nil {
		return false, p.end
	}
	p.state = configuredState(w.t, o.Output)
	return false, nil
}
