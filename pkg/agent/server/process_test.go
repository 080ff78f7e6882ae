package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// Environment by which this test binary becomes an agent that is killed: its
// configuration, the step ahead of which it dies, and a file without which no
// step is counted. No other build has any of it.
const (
	envConfig = "HOLDFAST_TEST_AGENT_CONFIG"
	envStep   = "HOLDFAST_TEST_AGENT_STEP"
	envArmed  = "HOLDFAST_TEST_AGENT_ARMED"
)

func TestMain(m *testing.M) {
	if raw := os.Getenv(envConfig); raw != "" {
		if err := runDoomedAgent(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runDoomedAgent(raw string) error {
	var config Config
	if err := json.Unmarshal([]byte(raw), &config); err != nil {
		return err
	}
	config.Registry = prometheus.NewRegistry()
	server, err := New(config)
	if err != nil {
		return err
	}
	step, err := strconv.ParseInt(os.Getenv(envStep), 10, 64)
	if err != nil {
		return err
	}
	var count atomic.Int64
	server.agent.disk.intercept(func(what string) error {
		if _, err := os.Stat(os.Getenv(envArmed)); err != nil || count.Add(1) != step {
			return nil
		}
		fmt.Fprintln(os.Stderr, "killed before:", what)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing runs in a process that was killed
	})
	return server.Run(context.Background())
}

// doomed is an agent in a process of its own.
type doomed struct {
	command *exec.Cmd
	output  *lockedBuffer
	ended   chan error
	armed   string
}

func (p *pod) startDoomed(step int64) *doomed {
	p.t.Helper()
	config := p.newConfig()
	config.Registry = nil
	raw, err := json.Marshal(config)
	must(p.t, err)
	d := &doomed{output: &lockedBuffer{}, ended: make(chan error, 1), armed: filepath.Join(p.dir, "armed")}
	_ = os.Remove(d.armed)
	d.command = exec.Command(os.Args[0])
	d.command.Env = append(os.Environ(), envConfig+"="+string(raw), envStep+"="+strconv.FormatInt(step, 10), envArmed+"="+d.armed)
	d.command.Stderr = d.output
	must(p.t, d.command.Start())
	go func() { d.ended <- d.command.Wait() }()
	p.t.Cleanup(func() { _ = d.command.Process.Kill() })
	eventually(p.t, "the start of the agent", func() bool {
		_, err := p.client.State(p.t.Context(), p.target, client.StateOptions{})
		return err == nil
	})
	return d
}

// wasKilled waits for the end of the process, at the latest after the bound.
func (d *doomed) wasKilled(t *testing.T, bound time.Duration) bool {
	t.Helper()
	select {
	case <-d.ended:
		if !strings.Contains(d.output.String(), "killed before:") {
			t.Fatalf("the agent ended by itself:\n%s", d.output)
		}
		return true
	case <-time.After(bound):
		_ = d.command.Process.Kill()
		<-d.ended
		return false
	}
}

func (d *doomed) where() string {
	_, after, _ := strings.Cut(d.output.String(), "killed before: ")
	line, _, _ := strings.Cut(after, "\n")
	return line
}

// TestP20KilledAtEveryWrite: a real process is killed by SIGKILL ahead of each
// of its write steps. HAProxy then starts from disk as in a restarted pod, and
// finds exactly the old or exactly the new set; the next agent knows which.
func TestP20KilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	for name, pace := range map[string]time.Duration{"an apply that reloads at once": 0, "an apply that is scheduled": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := layPod(t)
			p.startHAProxy()
			p.startAgent()
			p.mustLoad(p.keyed("round 0"))
			p.stop()
			p.pace = pace
			stride := int64(oftenUnlessFull(1, 4))
			for step := int64(1); ; step += stride {
				if !p.killAt(step) {
					t.Logf("killed at one in %d of %d steps", stride, step-1)
					return
				}
			}
		})
	}
}

// keyed is an output with a private key among its files.
func (p *pod) keyed(answer string) output {
	certificate, key := p.certs.pair(p.t, "x.example")
	return p.output(answer).with("a.map", answer+"\n").with("x.pem", string(bytes.Join([][]byte{certificate, key}, nil)))
}

func (p *pod) killAt(step int64) bool {
	t := p.t
	t.Helper()
	before, next := p.served(), fmt.Sprintf("round %d", step)
	d := p.startDoomed(step)
	if p.pace > 0 {
		// A reload of this process' own, so that the next one has to wait.
		before = "before " + next
		result := p.apply(p.keyed(before))
		if !result.OK {
			t.Fatalf("step %d: %+v", step, result)
		}
		p.settled()
	}
	want := p.keyed(next)
	request := p.request(want)
	writeFile(t, d.armed, "")
	_, err := p.client.Apply(t.Context(), p.target, request)
	killed := d.wasKilled(t, 4*p.pace+100*time.Millisecond)
	what := fmt.Sprintf("step %d (%s, apply: %v)", step, d.where(), err)

	p.killHAProxy()
	p.startHAProxy()
	eventually(t, "a start from disk after "+what, func() bool { got := p.served(); return got == before || got == next })
	got := p.served()
	p.checkModes(what)
	after := p.startDoomed(-1)
	state := p.settled()
	if now := p.served(); now != got && now != next {
		t.Fatalf("%s: served %q first and %q in the end", what, got, now)
	}
	got = p.served()
	if state.Phase != api.PhaseConfigured || state.InvariantViolation != "" || state.WorkerStatus != api.WorkerOwned {
		t.Fatalf("%s: phase %s, worker %s, violation %q", what, state.Phase, state.WorkerStatus, state.InvariantViolation)
	}
	if isNext := state.RunningPlanID == request.Manifest.PlanID; isNext != (got == next) || state.AppliedPlanID != state.RunningPlanID {
		t.Fatalf("%s: serves %q, applied %s, running %s", what, got, state.AppliedPlanID, state.RunningPlanID)
	}
	if content, _ := os.ReadFile(filepath.Join(p.layout.current(), "a.map")); strings.TrimSpace(string(content)) != got {
		t.Fatalf("%s: serves %q beside a map of %q", what, got, content)
	}
	p.checkNoLeftovers(what)
	_ = after.command.Process.Kill()
	<-after.ended
	return killed
}

// checkModes: at no point may anybody else read a file of a set, and nobody but
// the owner a key.
func (p *pod) checkModes(what string) {
	p.t.Helper()
	err := filepath.WalkDir(p.layout.dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() && !entry.IsDir() {
			return err // HAProxy's sockets come and go
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		limit := os.FileMode(0o640)
		switch {
		case entry.IsDir():
			limit = 0o700
		case strings.HasSuffix(name, ".pem"):
			limit = 0o600
		}
		if mode := info.Mode().Perm(); mode&^limit != 0 {
			p.t.Errorf("%s: %s has mode %s", what, name, mode)
		}
		return nil
	})
	must(p.t, err)
}
