package server

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// lossy is a network between client and agent that can lose answers.
type lossy struct {
	listener net.Listener
	agentAt  string
	wg       sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn
	lost map[net.Conn]bool // connections whose next answer is lost
}

func (p *pod) throughLossy() (*lossy, client.Target) {
	p.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(p.t.Context(), "tcp", "127.0.0.1:0")
	must(p.t, err)
	l := &lossy{listener: listener, agentAt: p.agentAt, lost: map[net.Conn]bool{}}
	l.wg.Go(l.serve)
	p.t.Cleanup(l.close)
	target := p.target
	target.Address = listener.Addr().String()
	return l, target
}

func (l *lossy) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.agentAt)
		if err != nil {
			near.Close()
			continue
		}
		l.mu.Lock()
		l.open = append(l.open, near, far)
		l.mu.Unlock()
		l.wg.Go(func() { _, _ = io.Copy(far, near); far.Close() })
		l.wg.Go(func() { l.back(near, far) })
	}
}

// back carries answers until one is lost, and the connection with it.
func (l *lossy) back(near, far net.Conn) {
	defer near.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := far.Read(buffer)
		l.mu.Lock()
		lost := l.lost[near]
		l.mu.Unlock()
		if err != nil || lost {
			return
		}
		if _, err := near.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// lose has the next answer on every connection that is open now be lost.
func (l *lossy) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.open {
		l.lost[conn] = true
	}
}

func (l *lossy) close() {
	l.listener.Close()
	l.mu.Lock()
	for _, conn := range l.open {
		conn.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// TestLostAnswerIsResolved: an answer that is lost on its way is found in the
// pod's state, be it a reload, operations or HAProxy's refusal; an apply that
// never got there is not mistaken for one that did.
func TestLostAnswerIsResolved(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	network, target := p.throughLossy()
	start := p.rich("start")
	applyLost := func(o output, lose bool, ops ...plan.Operation) (*api.Result, error) {
		t.Helper()
		request := p.request(o)
		before, err := p.client.State(t.Context(), target, client.StateOptions{WithoutPlan: true}) // over the connection that will be used
		must(t, err)
		request.Before = before
		request.Manifest.InPlaceOps, request.Manifest.Ops = len(ops) > 0, ops
		if lose {
			network.lose()
		}
		return p.client.Apply(t.Context(), target, request)
	}
	result, err := applyLost(start, true)
	if err != nil || !result.OK || result.Mode != api.OutcomeReload {
		t.Fatalf("a reload: %+v, %v", result, err)
	}
	p.mustRun(start, "after a lost answer")
	next := start.edit(t, "maps/hosts.map", "two words", "x")
	result, err = applyLost(next, true, plan.Operation{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "x"})
	if err != nil || result.Mode != api.OutcomeRuntime || result.AppliedPlanID != next.request(api.Token{}).Manifest.PlanID {
		t.Fatalf("operations: %+v, %v", result, err)
	}
	broken := next.with(api.ConfigPath, "nonsense\n")
	result, err = applyLost(broken, true)
	if err != nil || result.OK || result.Error == nil {
		t.Fatalf("a refusal: %+v, %v", result, err)
	}
	// The same output again, which never arrives: the refusal before is no answer.
	request := p.request(broken)
	request.Before = p.state(false)
	p.client.Close()
	gone := target
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	silent.Close()
	gone.Address = silent.Addr().String()
	var unanswered *client.UnansweredError
	if _, err := p.client.Apply(t.Context(), gone, request); err == nil || errors.As(err, &unanswered) {
		t.Errorf("what was never sent: %v", err)
	}
	if result := p.mustMove(start, plan.Operation{Kind: plan.OpMapSet, Path: "maps/hosts.map", Key: "b.example", Value: "two words"}); !result.OK {
		t.Errorf("afterwards: %+v", result)
	}
}
