package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// envBench turns the measurements on: they need an otherwise idle machine.
const envBench = "HOLDFAST_BENCH"

// large is an output of many backends, of which one changes with each answer.
func (p *pod) large(answer string, count int) output {
	o := p.output(answer)
	var config strings.Builder
	config.WriteString(o[api.ConfigPath])
	for i := range count {
		fmt.Fprintf(&config, "backend b%d\n    server s1 127.0.0.1:%d weight 10\n    server s2 127.0.0.2:%d\n", i, 1000+i, 1000+i)
	}
	o[api.ConfigPath] = config.String()
	return o
}

// TestReloadLatency prints how long an apply takes beside writing the same files
// and sending "reload" by hand. Both clocks stop when the new worker is seen.
func TestReloadLatency(t *testing.T) {
	if os.Getenv(envBench) == "" {
		t.Skip("set " + envBench + " to measure")
	}
	for _, count := range []int{300, 3000} {
		p, other := newPod(t), layPod(t)
		other.startHAProxy()
		s := &supervisor{master: other.layout.masterSocket(), worker: other.layout.workerSocket(), wait: waitLimit}
		eventually(t, "the start", func() bool { _, err := s.observe(t.Context()); return err == nil })
		var byAgent, byHand, staging, reloading []time.Duration
		for round := range 9 {
			answer := fmt.Sprint("round ", round)
			request := p.request(p.large(answer, count))
			began := time.Now()
			result, err := p.client.Apply(t.Context(), p.target, request)
			byAgent = append(byAgent, time.Since(began))
			if err != nil || !result.OK {
				t.Fatalf("apply: %+v, %v", result, err)
			}

			staging = append(staging, time.Duration(result.Timing.StageMicros)*time.Microsecond)
			reloading = append(reloading, time.Duration(result.Timing.ReloadMicros)*time.Microsecond)

			content := other.large(answer, count)
			began = time.Now()
			must(t, os.WriteFile(filepath.Join(other.layout.current(), api.ConfigPath), []byte(content[api.ConfigPath]), 0o600))
			must(t, os.WriteFile(other.layout.nonce(), []byte("global\n    description "+fmt.Sprint("n", round)+"\n    stats socket "+
				other.layout.workerSocket()+" mode 600 level admin expose-fd listeners\n"), 0o600))
			if outcome := s.reload(t.Context(), fmt.Sprint("n", round)); outcome.Result != resultLoaded {
				t.Fatalf("by hand: %+v", outcome)
			}
			byHand = append(byHand, time.Since(began))
		}
		for _, times := range [][]time.Duration{byAgent, byHand, staging, reloading} {
			slices.Sort(times)
		}
		agent, hand := byAgent[len(byAgent)/2], byHand[len(byHand)/2]
		t.Logf("of the agent's time, staging %s, reload %s", staging[len(staging)/2].Round(time.Millisecond), reloading[len(reloading)/2].Round(time.Millisecond))
		t.Logf("%d backends: %s by the agent, %s by hand, ratio %.2f (best %s and %s)", count,
			agent.Round(time.Millisecond), hand.Round(time.Millisecond), float64(agent)/float64(hand), byAgent[0].Round(time.Millisecond), byHand[0].Round(time.Millisecond))
	}
}

// maxResident is what the agent may hold with a large output.
const maxResident = 64 << 20

// TestResidentMemory: an agent process with 3,000 backends and 200 certificates,
// after an apply and verified reads, and at its worst.
func TestResidentMemory(t *testing.T) {
	t.Parallel()
	p := layPod(t)
	p.startHAProxy()
	d := p.startDoomed(-1)
	o := p.large("large", 3000)
	for i := range 200 {
		certificate, key := p.certs.pair(t, fmt.Sprintf("host-%d.example", i))
		o[fmt.Sprintf("certs/%d.pem", i)] = string(bytes.Join([][]byte{certificate, key}, nil))
	}
	o[api.ConfigPath] = strings.Replace(o[api.ConfigPath], "    http-request return", fmt.Sprintf("    bind \"${POD_IP}:%d\" ssl crt certs\n    http-request return", p.tlsPort()), 1)
	p.mustLoad(o)
	for range 3 {
		if state, err := p.client.State(t.Context(), p.target, client.StateOptions{Verify: true}); err != nil || state.InvariantViolation != "" {
			t.Fatalf("verified state: %+v, %v", state, err)
		}
	}
	resident, worst := memoryOf(t, d.command.Process.Pid, "VmRSS:"), memoryOf(t, d.command.Process.Pid, "VmHWM:")
	t.Logf("resident %.1f MiB, at its worst %.1f MiB, with a test's code in it", float64(resident)/(1<<20), float64(worst)/(1<<20))
	if worst > maxResident && !raceEnabled {
		t.Errorf("agent held %d bytes, the limit is %d", worst, maxResident)
	}
}

func memoryOf(t *testing.T, pid int, name string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, after, _ := strings.Cut(string(status), name)
	fields := strings.Fields(after)
	kib, err := strconv.Atoi(fields[0])
	must(t, err)
	return kib << 10
}
