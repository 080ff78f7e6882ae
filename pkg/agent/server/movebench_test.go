package server

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// TestOperationLatency prints how long an apply in place takes, at the agent and
// from the client's side, in a pod with many backends.
func TestOperationLatency(t *testing.T) {
	if os.Getenv(envBench) == "" {
		t.Skip("set " + envBench + " to measure")
	}
	for _, count := range []int{300, 3000} {
		p := newPod(t)
		o := p.large("bench", count)
		certificate, key := p.certs.pair(t, "start.example")
		o = o.with("x.pem", string(certificate)+string(key))
		o = o.edit(t, api.ConfigPath, "    http-request return", fmt.Sprintf("    bind \"${POD_IP}:%d\" ssl crt x.pem\n    http-request deny if { path,map(m.map) -m found }\n    http-request return", p.tlsPort()))
		var rows strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&rows, "host-%d.example backend-%d\n", i, i)
		}
		o = o.with("m.map", rows.String()+"last 0\n")
		p.mustLoad(o)
		kinds := []struct {
			name string
			next func(round int) (output, plan.Operation)
		}{
			{"one server's address", func(round int) (output, plan.Operation) {
				was, now := 1000+round, 1001+round
				line := "    server s2 127.0.0.2:%d\n"
				head, tail, _ := strings.Cut(o[api.ConfigPath], "backend b0\n")
				tail = strings.Replace(tail, fmt.Sprintf(line, was), fmt.Sprintf(line, now), 1)
				return o.with(api.ConfigPath, head+"backend b0\n"+tail), plan.Operation{Kind: plan.OpServerAddress, Backend: "b0", Server: "s2", Address: "127.0.0.2", Port: int64(now)}
			}},
			{"one row of 10,000", func(round int) (output, plan.Operation) {
				value := fmt.Sprint(round + 1)
				return o.with("m.map", rows.String()+"last "+value+"\n"), plan.Operation{Kind: plan.OpMapSet, Path: "m.map", Key: "last", Value: value}
			}},
			{"one certificate", func(int) (output, plan.Operation) {
				certificate, key := p.certs.pair(t, "next.example")
				return o.with("x.pem", string(certificate)+string(key)), plan.Operation{Kind: plan.OpCertReplace, Path: "x.pem"}
			}},
		}
		for _, kind := range kinds {
			var atAgent, inWorker, byClient []time.Duration
			for round := range 21 {
				next, op := kind.next(round)
				request := p.request(next)
				request.Manifest.InPlaceOps, request.Manifest.Ops = true, []plan.Operation{op}
				began := time.Now()
				result, err := p.client.Apply(t.Context(), p.target, request)
				byClient = append(byClient, time.Since(began))
				if err != nil || result.Mode != api.OutcomeRuntime {
					t.Fatalf("%s: %+v, %v", kind.name, result, err)
				}
				atAgent = append(atAgent, time.Duration(result.Timing.TotalMicros)*time.Microsecond)
				inWorker = append(inWorker, time.Duration(result.Timing.TotalMicros-result.Timing.StageMicros)*time.Microsecond)
				o = next
			}
			for _, times := range [][]time.Duration{atAgent, inWorker, byClient} {
				slices.Sort(times)
			}
			middle := len(atAgent) / 2
			t.Logf("%d backends, %s: %s at the agent, of it %s after the files were written (best %s), %s by the client", count, kind.name,
				atAgent[middle].Round(100*time.Microsecond), inWorker[middle].Round(100*time.Microsecond), atAgent[0].Round(100*time.Microsecond), byClient[middle].Round(100*time.Microsecond))
		}
	}
}
