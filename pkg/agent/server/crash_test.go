package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

var errCrash = errors.New("the process was killed here")

// TestP20CrashAtEveryWrite ends the agent before each of its write steps in
// turn: everything after that step fails too, as nothing runs in a process that
// was killed. HAProxy must start from what is on disk with exactly the old or
// exactly the new set, and a new agent must say which.
func TestP20CrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		name := "HAProxy keeps running"
		if restart {
			name = "HAProxy restarts too"
		}
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			p.mustLoad(p.output("round 0").with("a.map", "round 0\n"))
			for step := int64(1); ; step++ {
				if !p.crashAt(step, restart) {
					t.Logf("crashed at each of %d steps", step-1)
					return
				}
			}
		})
	}
}

// crashAt applies a new output and ends the agent before the given step. It
// reports whether there was such a step.
func (p *pod) crashAt(step int64, restartHAProxy bool) bool {
	t := p.t
	t.Helper()
	before, next := p.served(), fmt.Sprintf("round %d", step)
	var count atomic.Int64
	var at atomic.Value
	p.agent.disk.intercept(func(what string) error {
		if count.Add(1) < step {
			return nil
		}
		at.CompareAndSwap(nil, what)
		return errCrash
	})
	o := p.output(next).with("a.map", next+"\n").with("keep.map", "k v\n")
	_, err := p.client.Apply(t.Context(), p.target, p.request(o))
	crashed := count.Load() >= step
	p.stop()
	p.agent.disk.intercept(nil)
	if restartHAProxy {
		p.killHAProxy()
		p.startHAProxy()
	}
	p.startAgent()
	state, got := p.state(true), p.served()
	what := fmt.Sprintf("crash at step %d (%v, apply: %v)", step, at.Load(), err)
	if got != before && got != next {
		t.Fatalf("%s: serves %q, want %q or %q", what, got, before, next)
	}
	if state.Phase != api.PhaseConfigured || state.InvariantViolation != "" || state.WorkerStatus != api.WorkerOwned {
		t.Fatalf("%s: phase %s, worker %s, violation %q", what, state.Phase, state.WorkerStatus, state.InvariantViolation)
	}
	hosts, _ := os.ReadFile(filepath.Join(p.layout.current(), "a.map"))
	if strings.TrimSpace(string(hosts)) != got {
		t.Fatalf("%s: serves %q beside a map of %q", what, got, hosts)
	}
	want := p.output(got).with("a.map", got+"\n")
	if got != "round 0" {
		want = want.with("keep.map", "k v\n")
	}
	if plan := want.request(api.Token{}).Manifest.PlanID; state.RunningPlanID != plan {
		t.Fatalf("%s: state names plan %s, the worker runs %s", what, state.RunningPlanID, plan)
	}
	p.checkNoLeftovers(what)
	return crashed
}

func (p *pod) checkNoLeftovers(what string) {
	p.t.Helper()
	entries, err := os.ReadDir(p.layout.dir)
	must(p.t, err)
	for _, entry := range entries {
		switch entry.Name() {
		case "current", "nonce.cfg", "journal.json", "sets", "run":
		default:
			p.t.Errorf("%s: left %s behind", what, entry.Name())
		}
	}
	filled := 0
	for i := range maxSlots {
		if _, err := os.Stat(filepath.Join(p.layout.slot(fmt.Sprintf("s%d", i)), setMeta)); err == nil {
			filled++
		}
	}
	if filled > maxGood {
		p.t.Errorf("%s: %d sets are kept, want at most %d", what, filled, maxGood)
	}
}

// TestP20FullDisk: a step that fails while the process lives on is answered as
// an error, changes nothing, and the next apply works.
func TestP20FullDisk(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("before"))
	for step := int64(1); ; step++ {
		var count atomic.Int64
		p.agent.disk.intercept(func(string) error {
			if count.Add(1) == step {
				return syscall.ENOSPC
			}
			return nil
		})
		next := fmt.Sprintf("round %d", step)
		result, err := p.client.Apply(t.Context(), p.target, p.request(p.output(next)))
		failed := count.Load() >= step
		p.agent.disk.intercept(nil)
		state, got := p.state(true), p.served()
		if state.Phase != api.PhaseConfigured || state.InvariantViolation != "" {
			t.Fatalf("step %d: phase %s, violation %q, apply %+v %v", step, state.Phase, state.InvariantViolation, result, err)
		}
		if want := p.output(got).request(api.Token{}).Manifest.PlanID; state.RunningPlanID != want {
			t.Fatalf("step %d: state names %s, the worker runs %s (%q)", step, state.RunningPlanID, want, got)
		}
		if err == nil && got != next {
			t.Fatalf("step %d: answered %+v and serves %q", step, result, got)
		}
		if !failed {
			return
		}
	}
}

// TestInitialiseCrashAtEveryStep: the init container may be killed anywhere and
// is run again.
func TestInitialiseCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for step := int64(1); ; step++ {
		l, err := newLayout(filepath.Join(t.TempDir(), "d"))
		if err != nil {
			t.Skip("temporary folder has too long a name")
		}
		var count atomic.Int64
		d := &disk{}
		d.intercept(func(string) error {
			if count.Add(1) >= step {
				return errCrash
			}
			return nil
		})
		err = initialise(t.Context(), d, l, nil)
		if (err == nil) != (count.Load() < step) {
			t.Fatalf("step %d: %v", step, err)
		}
		must(t, initialise(t.Context(), &disk{}, l, nil))
		j, loadErr := loadJournal(l)
		must(t, loadErr)
		bootstrap, loadErr := loadSet(l, j.Current)
		must(t, loadErr)
		a := newAgent(Config{Registry: prometheus.NewRegistry()}, l, &disk{})
		a.journal, a.current = j, bootstrap
		must(t, a.checkTree())
		if err == nil {
			return
		}
	}
}
